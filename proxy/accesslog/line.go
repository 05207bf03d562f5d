// Package accesslog writes a line for each request: to a file, to standard output, or with the
// log of the process. Requests never wait for it.
package accesslog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/abide-proxy/abide/internal/redact"
)

// Line describes a request that is complete.
type Line struct {
	End      time.Time
	Client   string
	Priority int
	Method   string
	Origin   string         // scheme, host and port: "https://api.example.com:443"
	Path     string         // escaped, without the query
	Secret   *redact.Finder // what must not appear in the path; nil: nothing is known
	Own      string         // the client's own Authorization, which must not either; "": there is none
	Site     string
	Status   int // of the client's response; 499: the client left before
	Took     time.Duration
	Wait     time.Duration // part of Took that the request was held for
	Limit    string        // limit that held the request for longest; "": none
	Attempts int           // number of times that the request was sent to the site
	Refusals int           // number of attempts that the site refused because of a limit
	Token    string        // label of the last attempt's token; "": none
	Reason   string        // why abide answered itself or cut the answer; "": it did not
	Received int64         // bytes of the response's body
	Sent     int64         // bytes of the request's body
}

// redacted stands for what looks like a secret.
const redacted = "[redacted]"

// url is the address that was asked for, without what looks like a secret.
func (l *Line) url() string {
	path, _ := l.Secret.Text(l.Path, redacted)
	if len(l.Own) >= leastOwn {
		_, credential, _ := strings.Cut(l.Own, " ") // behind the scheme, such as Bearer
		if len(credential) < leastOwn {
			credential = l.Own
		}
		path, _ = redact.New(credential).Text(path, redacted)
	}
	return l.Origin + redact.Path(path, redacted)
}

// leastOwn is the least length of a credential that is looked for in paths. Shorter ones are in
// many words.
const leastOwn = 6

// ms is a time in milliseconds, to the microsecond.
func ms(d time.Duration) float64 { return math.Round(float64(d)/1e3) / 1e3 }

// written is a line as JSON has it.
type written struct {
	Time     string  `json:"time"`
	Message  string  `json:"msg"`
	Client   string  `json:"client"`
	Priority int     `json:"priority"`
	Method   string  `json:"method"`
	URL      string  `json:"url"`
	Site     string  `json:"site"`
	Status   int     `json:"status"`
	Took     float64 `json:"ms"`
	Wait     float64 `json:"wait"`
	Limit    string  `json:"limit,omitempty"`
	Attempts int     `json:"attempts"`
	Refusals int     `json:"refusals"`
	Token    string  `json:"token,omitempty"`
	Reason   string  `json:"reason,omitempty"`
	Received int64   `json:"received"`
	Sent     int64   `json:"sent"`
}

func (l *Line) written() written {
	return written{
		l.End.UTC().Format(time.RFC3339Nano), "request", l.Client, l.Priority, l.Method, l.url(), l.Site, l.Status,
		ms(l.Took), math.Round(float64(l.Wait)/1e3) / 1e6, l.Limit, l.Attempts, l.Refusals, l.Token, l.Reason, l.Received, l.Sent,
	}
}

// json is the line as an object, with its end of line.
func (l *Line) json() []byte {
	text, _ := json.Marshal(l.written()) // texts and finite numbers have no error
	return append(text, '\n')
}

// field is a part of a line: a text or a number.
type field struct {
	name  string
	value any
}

// fields are the parts of a line behind its time and msg, by their names in JSON.
func (w written) fields() (list []field) {
	v := reflect.ValueOf(w)
	for i := 2; i < v.NumField(); i++ {
		name, option, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if option != "omitempty" || !v.Field(i).IsZero() {
			list = append(list, field{name, v.Field(i).Interface()})
		}
	}
	return list
}

// text is the line as name=value pairs, with its end of line.
func (l *Line) text() []byte {
	w := l.written()
	b := bytes.NewBufferString(w.Time)
	for _, f := range w.fields() {
		value := fmt.Sprint(f.value)
		if n, isFloat := f.value.(float64); isFloat {
			value = strconv.FormatFloat(n, 'f', -1, 64)
		}
		if value == "" || strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r > 0x7e || strings.ContainsRune(`"=\`, r) }) {
			value = strconv.Quote(value)
		}
		b.WriteString(" " + f.name + "=" + value)
	}
	b.WriteByte('\n')
	return b.Bytes()
}
