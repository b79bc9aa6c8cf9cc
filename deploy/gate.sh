#!/bin/sh
# A step of a pipeline, which fails a build whose server is too slow, after DURATION of load:
#   gate.sh http://127.0.0.1:8080/ -R 500 --slo 'p99<20ms,errors<0.1%,rate>=0.99'
# Of windows of 60 s, 19 in 20 see what happens every 20 s on average; shorter ones see less.
duration=${DURATION:-60s}
rm -f results.xml report.json  # those of another build
truetail run "$@" --duration "$duration" --fail-on undecided --junit results.xml --out report.json
code=$?
case $code in
  0) said="held, if a window of $duration is typical: the summary says what it may lack" ;;
  3) said='the numbers cannot be trusted: the summary says why' ;;
  4) said='undecided: a longer DURATION decides'
     if grep -q '"judgement": "missed"' report.json; then said='missed'; fi ;;
  130) said='not judged: interrupted' ;;
  *) said='not judged: the line above says why' ;;
esac
echo "objectives: $said" >&2
exit $code
