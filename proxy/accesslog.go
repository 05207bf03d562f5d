package proxy

import (
	"context"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"
)

// accessLog writes a line a request, away from the request's path. When it
// cannot keep up it drops lines rather than hold a request up.
type accessLog struct {
	log   *logrus.Logger
	lines chan accessLine
}

// accessLine is a request that is over. It holds no path and no query: both may
// carry secrets.
type accessLine struct {
	end            time.Time
	client, site   string
	method, scope  string // scope: scheme, host and port
	code           int    // status that the client was given; 499: it left before
	took           time.Duration
	wait           time.Duration // of that, held
	limit          string        // that held it for longest
	attempts       int           // times that it was sent to the site
	refusals       int           // of these, that the site refused because of a limit
	token          string        // label of the last attempt's
	received, sent int64         // bytes of the answer's body and of the request's
}

func newAccessLog(log *logrus.Logger) *accessLog {
	return &accessLog{log: log, lines: make(chan accessLine, 4096)}
}

// note queues the line of a request that is over.
func (a *accessLog) note(x *exchange, method string, code int) {
	t, now := &x.turn, time.Now()
	line := accessLine{
		end: now, site: x.site, method: method, code: code, took: now.Sub(x.start),
		scope: fmt.Sprintf("%s://%s", x.target.Scheme, x.target.HostPort()),
		wait:  t.waited, limit: t.holds.longest(), attempts: t.sent, refusals: t.refused, token: t.label,
		received: x.download.total, sent: x.upload.size(),
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
	fields := logrus.Fields{
		"client": l.client, "method": l.method, "target": l.scope, "site": l.site,
		"status": l.code, "ms": l.took.Milliseconds(),
		"wait": l.wait.Round(time.Millisecond).Seconds(), "attempts": l.attempts, "refusals": l.refusals,
		"received": l.received, "sent": l.sent,
	}
	if l.limit != "" {
		fields["limit"] = l.limit
	}
	if l.token != "" {
		fields["token"] = l.token
	}
	a.log.WithTime(l.end).WithFields(fields).Info("request")
}
