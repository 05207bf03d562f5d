package proxy

import (
	"context"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"
)

// accessLog writes a line for each request, on a goroutine of its own. When the log is too
// slow, lines are dropped and requests do not wait.
type accessLog struct {
	log   *logrus.Logger
	lines chan accessLine
}

// accessLine describes a request that is complete. It has no path and no query, because
// both may carry secrets.
type accessLine struct {
	end            time.Time
	client, site   string
	method, target string // target: scheme, host and port
	status         int    // of the client's response; 499: the client left before
	took           time.Duration
	wait           time.Duration // part of took that the request was held for
	limit          string        // limit that held the request for longest
	attempts       int           // number of times that the request was sent to the site
	refusals       int           // number of attempts that the site refused because of a limit
	token          string        // label of the last attempt's token
	received, sent int64         // bytes of the response's body and of the request's
}

func newAccessLog(log *logrus.Logger) *accessLog {
	return &accessLog{log: log, lines: make(chan accessLine, 4096)}
}

// add queues the line of a request that is complete.
func (a *accessLog) add(x *exchange, method string, status int) {
	report, now := x.Report(), time.Now()
	line := accessLine{
		end: now, client: x.conn.name(), site: report.Site, method: method, status: status, took: now.Sub(x.Start),
		target: fmt.Sprintf("%s://%s", x.Target.Scheme, x.Target.HostPort()),
		wait:   report.Waited, limit: report.Limit, attempts: report.Attempts, refusals: report.Refusals, token: report.Token,
		received: x.download.total, sent: x.upload.size(),
	}
	if x.Client != nil {
		line.client = x.Client.Name
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
		"client": l.client, "method": l.method, "target": l.target, "site": l.site,
		"status": l.status, "ms": l.took.Milliseconds(),
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
