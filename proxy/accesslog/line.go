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

// Line describes a request that is complete. The fields with names in JSON are written.
type Line struct {
	End     time.Time      `json:"time"`
	Message string         `json:"msg"` // set by complete, as are the others whose comment begins so
	Origin  string         `json:"-"`   // scheme, host and port: "https://api.example.com:443"
	Path    string         `json:"-"`   // escaped, without the query
	Secret  *redact.Finder `json:"-"`   // what must not appear in the path; nil: nothing is known
	Own     string         `json:"-"`   // the client's own Authorization, which must not either; "": there is none
	Took    time.Duration  `json:"-"`
	Wait    time.Duration  `json:"-"` // part of Took that the request was held for

	Client       string  `json:"client"`
	Priority     int     `json:"priority"`
	Method       string  `json:"method"`
	URL          string  `json:"url"` // set by complete: Origin and Path without what looks like a secret
	Site         string  `json:"site"`
	Status       int     `json:"status"`           // of the client's response; 499: the client left before
	Milliseconds float64 `json:"ms"`               // set by complete: Took, to the microsecond
	Waited       float64 `json:"wait"`             // set by complete: Wait in seconds, to the microsecond
	Limit        string  `json:"limit,omitempty"`  // limit that held the request for longest; "": none
	Attempts     int     `json:"attempts"`         // number of times that the request was sent to the site
	Refusals     int     `json:"refusals"`         // number of attempts that the site refused because of a limit
	Token        string  `json:"token,omitempty"`  // label of the last attempt's token; "": none
	Reason       string  `json:"reason,omitempty"` // why abide answered itself or cut the answer; "": it did not
	Received     int64   `json:"received"`         // bytes of the response's body
	Sent         int64   `json:"sent"`             // bytes of the request's body
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

// complete sets the fields that follow from others.
func (l *Line) complete() {
	l.End, l.Message, l.URL = l.End.UTC(), "request", l.url()
	l.Milliseconds, l.Waited = math.Round(float64(l.Took)/1e3)/1e3, math.Round(float64(l.Wait)/1e3)/1e6
}

// json is the line as an object, with its end of line.
func (l *Line) json() []byte {
	l.complete()
	text, _ := json.Marshal(l) // texts and finite numbers have no error
	return append(text, '\n')
}

// field is a part of a line: a text or a number.
type field struct {
	name  string
	value any
}

// fields are the parts of a line behind its time and msg, by their names in JSON.
func (l *Line) fields() (list []field) {
	l.complete()
	v := reflect.ValueOf(*l)
	for i := 2; i < v.NumField(); i++ {
		name, option, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if name != "-" && (option != "omitempty" || !v.Field(i).IsZero()) {
			list = append(list, field{name, v.Field(i).Interface()})
		}
	}
	return list
}

// text is the line as name=value pairs, with its end of line.
func (l *Line) text() []byte {
	b := bytes.NewBufferString(l.End.UTC().Format(time.RFC3339Nano))
	for _, f := range l.fields() {
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
