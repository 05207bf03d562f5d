package status

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestClientsThatLeaveAfterNearlyTheSameTimeHaveATimeOut: what clients end after other times is their own wish.
func TestClientsThatLeaveAfterNearlyTheSameTimeHaveATimeOut(t *testing.T) {
	for name, c := range map[string]struct {
		ages []string // durations, with * where others left at the same moment before, or other reasons
		want string
	}{
		"one alone":                   {[]string{"5s"}, "1 request given up by clients before the end of the answer: stopped"},
		"all at once":                 {[]string{"5.003s", "5.01s", "5.04s", "4.97s", "5.2s"}, "5 requests given up by clients before the end of the answer, after 5s each: a longer time-out helps"},
		"stopped together":            {[]string{"24s", "24s*", "24.01s*", "24.02s*"}, "4 requests given up by clients before the end of the answer: stopped"},
		"several at each time-out":    {[]string{"5s", "5s*", "5s*", "5.01s", "5.02s*", "5s*"}, "6 requests given up by clients before the end of the answer, after 5s each: a longer"},
		"a minute":                    {[]string{"60.01s", "60.2s", "59.8s"}, "3 requests given up by clients before the end of the answer, after 1m0s each: "},
		"some of them":                {[]string{"180.1s", "180.4s", "181s", "7s", "31s"}, "2 requests given up by clients before the end of the answer: stopped|3 requests given up by clients before the end of the answer, after 3m0s each"},
		"of their own wish":           {[]string{"1s", "1.7s", "3s", "4.4s", "9s", "9.1s", "9.2s", "30s"}, "8 requests given up by clients before the end of the answer: stopped"},
		"as the site was left alone":  {[]string{WhileFailing, WhileFailing, WhileFailing}, "3 requests given up by clients before the end of the answer, while the site failed"},
		"as an older abide stored it": {[]string{"", "", "", ""}, "4 requests given up by clients before the end of the answer: stopped"},
	} {
		var f Failures
		for _, reason := range c.ages {
			text, again := strings.CutSuffix(reason, "*")
			if after, err := time.ParseDuration(text); err == nil {
				reason = Age(after, !again)
			}
			f.Add("a.test", FailureOf(ClientLeft, reason), 1)
		}
		f.Codes["a.test"] = TimeOuts(f.Codes["a.test"])
		got, want := f.Sentences("clients"), strings.Split(c.want, "|")
		if !slices.EqualFunc(got, want, strings.HasPrefix) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
