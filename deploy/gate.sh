#!/bin/sh
# A pipeline step that fails the build if the server is too slow under DURATION of load:
#   gate.sh http://127.0.0.1:8080/ -R 500 --slo 'p99<20ms,errors<0.1%,rate>=0.99'
# 19 in 20 windows of 60 s catch an event that comes every 20 s on average; shorter ones miss more.
duration=${DURATION:-60s}
rm -f results.xml report.json  # from an earlier build
truetail run "$@" --duration "$duration" --fail-on undecided --junit results.xml --out report.json
code=$?
case $code in
  0) result="held, if a window of $duration is typical: see the summary for what it may miss" ;;
  3) result='the numbers cannot be trusted: see the summary for the reasons' ;;
  4) result='undecided: a longer DURATION decides'
     if grep -q '"judgement": "missed"' report.json; then result='missed'; fi ;;
  130) result='not judged: interrupted' ;;
  *) result='not judged: see the line above for the reason' ;;
esac
echo "objectives: $result" >&2
exit $code
