package admin

import (
	"strings"
	"testing"
	"time"
)

func TestAFaultOfTheStoreIsToldOnce(t *testing.T) {
	const why = "dial tcp 127.0.0.1:1: connect: connection refused"
	s := Status{
		Ready: true, Checks: []Check{{Name: "store", OK: true, Degraded: true, Detail: "since noon: " + why}},
		Store: &Store{Kind: "shared", Since: midday, Err: why},
	}
	var b strings.Builder
	s.Describe(&b)
	s.DescribeStore(&b, midday.Add(time.Minute))
	if n := strings.Count(b.String(), why); n != 1 {
		t.Errorf("it is told %d times: %s", n, b.String())
	}
}
