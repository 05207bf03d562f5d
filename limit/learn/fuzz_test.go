package learn

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func FuzzRead(f *testing.F) {
	for _, v := range vectors(f) {
		var text strings.Builder
		for _, line := range v.Headers {
			text.WriteString(line[0] + ": " + line[1] + "\n")
		}
		f.Add(v.Status, text.String(), v.Body, v.Request.Method, v.Request.Host, v.Request.Path, v.now().UnixNano())
	}
	f.Fuzz(func(t *testing.T, status int, text, body, method, host, path string, nanos int64) {
		var lines [][2]string
		for line := range strings.SplitSeq(text, "\n") {
			name, value, _ := strings.Cut(line, ":")
			lines = append(lines, [2]string{name, strings.TrimPrefix(value, " ")})
		}
		headers := headersOf(lines...)
		request := Request{Method: method, Host: host, Path: path}
		now := time.Unix(0, nanos)
		lesson := Read(status, headers, []byte(body), request, now)
		if err := sane(lesson, status, now); err != nil {
			t.Fatal(err)
		}
		if two := Read(status, headers, []byte(body), request, now); !reflect.DeepEqual(lesson, two) {
			t.Fatalf("%+v\n%+v", lesson, two)
		}
		WantsBody(status, request)
	})
}
