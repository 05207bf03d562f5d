package dispatch

import (
	"fmt"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/proxy/problem"
	"github.com/abide-proxy/abide/proxy/sitelog"
	"github.com/abide-proxy/abide/proxy/upstream"
)

// tlsSilence is how long a TLS failure of one kind at one site is not logged again.
const tlsSilence = time.Minute

// tlsLines are the lines of the log about TLS that failed.
type tlsLines struct {
	limit sitelog.LineLimit
	log   *logrus.Logger
}

// write logs that TLS with a host of a site, or with the next hop on the way to it, failed.
func (l *tlsLines) write(site, host string, err error, a *problem.Problem) {
	f := upstream.TLSFailureOf(err)
	if f == nil || !l.limit.Due(site+" "+a.Reason+" "+f.Fault.String(), time.Now()) {
		return
	}
	issuer := ""
	if f.Issuer != "" {
		issuer = fmt.Sprintf(" (issued by %q)", f.Issuer)
	}
	l.log.WithField("site", site).Warnf("%s: %s%s; %s", host, a.Title, issuer, a.Detail)
}
