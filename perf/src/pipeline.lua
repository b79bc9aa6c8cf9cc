-- Makes wrk send the request as often as its argument says, in one piece.
local requests

init = function(args)
  requests = string.rep(wrk.format(), tonumber(args[1]))
end

request = function()
  return requests
end
