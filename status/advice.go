package status

import (
	"cmp"
	"io"
	"strings"
	"time"
)

// GivenUp is the rule of advice about requests that clients gave up at a time-out, OwnAnswers that of requests that abide
// answered itself.
const GivenUp, OwnAnswers = "given-up", "own-answers"

// Advice is something that holds requests back, and what would change that.
type Advice struct {
	Rule   string  `json:"rule"`
	Site   string  `json:"site,omitempty"`
	Text   string  `json:"text"`             // how it is
	Change string  `json:"change,omitempty"` // what would change it
	Weight float64 `json:"weight"`           // 0 to 1; the first of a list has the largest
	Token  string  `json:"token,omitempty"`  // label of the token that it is about
	// Others are the other sites, or tokens, of which the same is so.
	Others  []string `json:"others,omitempty"`
	Lately  bool     `json:"lately,omitempty"`  // of requests that failed: some did in the last 5 minutes
	Because string   `json:"because,omitempty"` // of requests that failed: the limit for which most waited, or ByPause
}

// Loses tells whether clients lose many requests now, at a time-out or by an answer of abide itself.
func (a Advice) Loses() bool {
	return (a.Rule == GivenUp || a.Rule == OwnAnswers) && a.Weight >= 1 && a.Lately
}

// IsWrong tells whether what is wrong (Troubles) has the same.
func (a Advice) IsWrong() bool { return a.Loses() || a.Rule == "outage" || a.Rule == "denied-token" }

// Losing returns the sites of which clients lose many requests now.
func Losing(list []Advice) map[string]bool {
	losing := map[string]bool{}
	for _, one := range list {
		for _, site := range append([]string{one.Site}, one.Others...) {
			losing[site] = losing[site] || one.Loses()
		}
	}
	return losing
}

// ByPause ends the text of advice about requests that abide refused because of a pause.
const ByPause = "paused by the operator for longer than a request may wait (queue.wait)"

// said is the text without the site.
func (a Advice) said() string { return strings.TrimPrefix(a.Text, a.Site+": ") }

// Subject returns the site or token that the advice is about.
func (a Advice) Subject() string { return cmp.Or(a.Token, a.Site) }

// AdviceList is the answer of /api/v1/advice: from what was counted since Since.
type AdviceList struct {
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"`
	Advice []Advice  `json:"advice"`
}

// Describe prints the advice for people: that with the largest weight, or all of it.
func (l AdviceList) Describe(w io.Writer, all bool) {
	const mostAdvice = 5 // the number of pieces of advice that people are told of at once
	if len(l.Advice) == 0 {
		say(w, "nothing to advise: no limit has held requests for long since %s UTC", l.Since.UTC().Format("15:04"))
		return
	}
	for i, one := range l.Advice {
		if more := len(l.Advice) - i; i == mostAdvice && more > 1 && !all {
			say(w, "%d more matter less: abide advise --all", more)
			break
		}
		say(w, "%d. %s", i+1, one.Text)
		if one.Change != "" {
			say(w, "   %s", one.Change)
		}
	}
}
