package proxy

import (
	"fmt"
	"net/http"
	"time"

	"github.com/abide-proxy/abide/proxy/accesslog"
	"github.com/abide-proxy/abide/proxy/dispatch"
)

// accessLine is the line of the access log about a request that is complete.
func (x *exchange) accessLine(r *http.Request, report dispatch.Report, status int) accesslog.Line {
	now := time.Now()
	return accesslog.Line{
		End: now, Client: report.Client, Priority: report.Priority, Method: r.Method,
		Origin: fmt.Sprintf("%s://%s", x.Target.Scheme, x.Target.HostPort()), Path: r.URL.EscapedPath(), Secret: x.Token(), Own: r.Header.Get("Authorization"),
		Site: report.Site, Status: status, Took: now.Sub(x.Start),
		Wait: report.Waited, Limit: report.Limit, Attempts: report.Attempts, Refusals: report.Refusals, Token: report.Token,
		Received: x.download.total, Sent: x.upload.size(),
	}
}
