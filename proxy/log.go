package proxy

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
)

// eventOf keeps the constant words of a line of net/http or goproxy: what
// stands before the first thing that a peer may have chosen.
func eventOf(line string) string {
	for _, mark := range []string{"http:", "%", "\"", "://"} {
		if mark == "http:" {
			if rest, ok := strings.CutPrefix(line, mark); ok {
				line = strings.TrimSpace(rest)
			}
			continue
		}
		line, _, _ = strings.Cut(line, mark)
	}
	words := strings.Fields(line)
	return strings.Join(words[:min(len(words), 6)], " ")
}

// accessLog writes a line a request, away from the request's path. When it
// cannot keep up it drops lines rather than hold a request up.
type accessLog struct {
	log   *logrus.Logger
	lines chan accessLine
}

type accessLine struct {
	at            time.Time
	client, site  string
	method, scope string
	code          int
	took          time.Duration
}

func newAccessLog(log *logrus.Logger) *accessLog {
	return &accessLog{log: log, lines: make(chan accessLine, 4096)}
}

// note queues a line. It holds no path and no query: both may carry secrets.
func (a *accessLog) note(x *exchange, method string, code int) {
	line := accessLine{
		at: x.start, site: x.site, method: method, code: code, took: time.Since(x.start),
		scope: fmt.Sprintf("%s://%s", x.target.Scheme, x.target.HostPort()),
	}
	if x.conn != nil {
		line.client = x.conn.addr.String()
	}
	if x.client != nil {
		line.client = x.client.name
	}
	select {
	case a.lines <- line:
	default:
	}
}

// run writes until ctx is done and the queue is empty.
func (a *accessLog) run(ctx context.Context) {
	for {
		select {
		case line := <-a.lines:
			a.write(line)
		case <-ctx.Done():
			for {
				select {
				case line := <-a.lines:
					a.write(line)
				default:
					return
				}
			}
		}
	}
}

func (a *accessLog) write(l accessLine) {
	a.log.WithTime(l.at).WithFields(logrus.Fields{
		"client": l.client, "method": l.method, "target": l.scope, "site": l.site,
		"status": l.code, "ms": l.took.Milliseconds(),
	}).Info("request")
}
