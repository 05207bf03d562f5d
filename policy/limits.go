package policy

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/abide-proxy/abide/limit"
)

// ParseLimits reads limits that are set at run time: {"limits": [{"requests": 10,
// "per": "1s"}]}, as JSON or as YAML, in the words of the configuration and with its
// checks. An empty list is no limits at all, and never nil. The error is a Faults,
// each with its line and place in the body.
//
// A limit by token is accepted; the caller knows whether the site has tokens.
func ParseLimits(body []byte) ([]Limit, error) {
	limits := []Limit{}
	faults := ReadDocument(Source{Path: "body", Data: body}, "", func(d *Decoder, root *yaml.Node) {
		if root == nil {
			d.Failf(&yaml.Node{}, "", `is empty; write {"limits": [{"requests": 10, "per": "1s"}]}, or {"limits": []} for none`)
			return
		}
		d.Mapping(root, "", Required("limits", "", Value{Read: func(n *yaml.Node, path string) {
			limits = append(limits, readLimits(d, n, path, ofPooled)...)
		}}))
	})
	if len(faults) > 0 {
		return nil, faults
	}
	for i := range limits {
		limits[i].Line = 0 // of no file
	}
	return limits, nil
}

// limitText is a limit as it is written. Whole numbers stand without quotes.
type limitText struct {
	Requests    int64    `json:"requests,omitempty"`
	Bytes       string   `json:"bytes,omitempty"`
	Cost        int64    `json:"cost,omitempty"`
	Concurrency int64    `json:"concurrency,omitempty"`
	Per         string   `json:"per,omitempty"`
	As          limit.As `json:"as,omitempty"`
	By          string   `json:"by,omitempty"`
	Method      string   `json:"method,omitempty"`
	Path        string   `json:"path,omitempty"`
	Each        int64    `json:"each,omitempty"`
	Burst       any      `json:"burst,omitempty"` // a number, or a size
	Min         string   `json:"min,omitempty"`
	Max         string   `json:"max,omitempty"`
	Stall       string   `json:"stall,omitempty"`
	Timezone    string   `json:"timezone,omitempty"`
}

// FormatLimits writes limits as ParseLimits reads them.
func FormatLimits(limits []Limit) ([]byte, error) {
	all := struct {
		Limits []limitText `json:"limits"`
	}{[]limitText{}}
	for i := range limits {
		text, err := limits[i].written()
		if err != nil {
			return nil, fmt.Errorf("limits[%d]: %w", i, err)
		}
		all.Limits = append(all.Limits, text)
	}
	return json.Marshal(all)
}

func (l *Limit) written() (limitText, error) {
	t := limitText{As: l.As, By: l.By, Method: l.Method, Path: l.Path, Each: l.Each, Timezone: l.Timezone}
	if l.Traits().Adapts {
		t.Min, t.Max = l.Min.exact(), l.Max.exact()
		return t, nil
	}
	if l.Burst > 0 {
		t.Burst = l.Burst
	}
	switch l.Unit {
	case Requests:
		t.Requests = l.Amount
	case Cost:
		t.Cost = l.Amount
	case Bytes:
		t.Bytes = Size(l.Amount).String()
		if l.Burst > 0 {
			t.Burst = Size(l.Burst).String()
		}
		if l.Stall > 0 {
			t.Stall = formatDuration(l.Stall)
		}
	case Concurrency:
		t.Concurrency, t.As = l.Amount, ""
		return t, nil
	default:
		return t, fmt.Errorf("a limit of %q is not known", l.Unit)
	}
	t.Per = l.Per.String()
	return t, nil
}

// exact is the rate as parseRate reads it to the last bit, where there is such a
// text. A rate is seldom more than a number per second, minute, hour or day; what
// else it may be is looked for among the lengths of time that people write.
func (r Rate) exact() string {
	try := func(per time.Duration) (string, bool) {
		amount := strconv.FormatFloat(float64(r)*per.Seconds(), 'f', 9, 64)
		length := formatDuration(per)
		if length[0] == '1' && !digits(length[1:2]) {
			length = length[1:] // 1/s, not 1/1s
		}
		text := trimZeros(amount) + "/" + length
		read, err := parseRate(text)
		return text, err == nil && read == r
	}
	units := []time.Duration{time.Second, time.Minute, time.Hour, day, time.Millisecond}
	for n := time.Duration(1); n <= 100; n++ {
		for _, unit := range units {
			if text, ok := try(n * unit); ok {
				return text
			}
		}
	}
	text, _ := try(longest) // which leaves the most digits
	return text
}

// trimZeros cuts trailing zeros after the decimal point.
func trimZeros(s string) string {
	for s[len(s)-1] == '0' {
		s = s[:len(s)-1]
	}
	if s[len(s)-1] == '.' {
		s = s[:len(s)-1]
	}
	return s
}
