-- Makes wrk send the request as many times as its argument, in one piece.
local requests

init = function(args)
  requests = string.rep(wrk.format(), tonumber(args[1]))
end

request = function()
  return requests
end
