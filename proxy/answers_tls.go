package proxy

import (
	"fmt"
	"strings"
	"time"

	"github.com/abide-proxy/abide/upstream"
)

// tlsAnswers are the answers for a site with which TLS failed. The detail of some
// is continued by tlsAnswer with what the certificate says.
var tlsAnswers = map[upstream.TLSFault]answer{
	upstream.TLSOther: {
		title: "TLS with the site failed", detail: "the handshake broke off for a reason that abide does not know; the log at level debug has it",
		proxy: "tls_protocol_error",
	},
	upstream.TLSExpired: {
		title: "the site's certificate has expired", detail: "the site has to renew it",
		proxy: "tls_certificate_error",
	},
	upstream.TLSNotYetValid: {
		title: "the site's certificate is not valid yet", detail: "look at the clock of the machine that abide runs on",
		proxy: "tls_certificate_error",
	},
	upstream.TLSName: {
		title: "the site's certificate is for another name", detail: "look at the host of the URL",
		proxy: "tls_certificate_error",
	},
	upstream.TLSIssuer: {
		title:  "the issuer of the site's certificate is not trusted",
		detail: "the site may not send its intermediate certificates; for a private authority name its certificate in egress.roots",
		proxy:  "tls_certificate_error",
	},
	upstream.TLSSelfSigned: {
		title: "the site's certificate is self-signed", detail: "name it in egress.roots to trust it",
		proxy: "tls_certificate_error",
	},
	upstream.TLSUnfit: {
		title: "the site's certificate is not fit for a site", detail: "it cannot be read, or it or one of its issuers may not be used for this",
		proxy: "tls_certificate_error",
	},
	upstream.TLSNoRoots: {
		title:  "abide's machine has no certificates to trust",
		detail: "install them on the machine that abide runs on (on Debian: ca-certificates), or name a PEM file with them in egress.roots",
		proxy:  "tls_certificate_error",
	},
	upstream.TLSVersion: {
		title: "the site has no version of TLS or cipher in common with abide", detail: "abide speaks TLS 1.2 and 1.3; the site's TLS is too old, or the site does not know this host",
		proxy: "tls_protocol_error",
	},
	upstream.TLSNotTLS: {
		title: "the site does not speak TLS on this port", detail: "use http://, or another port",
		proxy: "tls_protocol_error",
	},
	upstream.TLSClient: {
		title: "the site wants a certificate of the client", detail: "abide has none to show; the client can show its own where its https passes unread (intercept)",
		proxy: "tls_alert_received",
	},
	upstream.TLSAlert: {
		title: "the site refused TLS with an alert", detail: "it may not know this host",
		proxy: "tls_alert_received",
	},
	upstream.TLSCut: {
		title: "the site closed the connection in the middle of the TLS handshake", detail: "something on the way may block the host, or the site may be overloaded",
		proxy: "connection_terminated",
	},
}

// hopTLS is the answer for a next hop with which TLS failed. The names in the hop's
// certificate are not for clients.
func hopTLS(f *upstream.TLSFailure) *answer {
	a := *upstreamAnswers[upstream.Hop]
	a.title = "TLS with the next proxy failed"
	a.detail = strings.ReplaceAll(tlsAnswers[f.Fault].title, "the site", "the next proxy") + "; look at egress.proxy and egress.roots"
	return &a
}

// tlsAnswer says why TLS with a site failed, as its certificate has it.
func tlsAnswer(f *upstream.TLSFailure) *answer {
	a := tlsAnswers[f.Fault]
	a.reason, a.status = f.Fault.String(), 502
	switch f.Fault {
	case upstream.TLSExpired:
		a.detail = "it ended at " + utcMinute(f.At) + "; " + a.detail
	case upstream.TLSNotYetValid:
		a.detail = "it begins at " + utcMinute(f.At) + "; " + a.detail
	case upstream.TLSName:
		a.detail = "it is for " + namesIn(f) + "; " + a.detail
	}
	return &a
}

func utcMinute(at time.Time) string { return at.UTC().Format("2006-01-02 15:04 UTC") }

func namesIn(f *upstream.TLSFailure) string {
	switch {
	case len(f.Names) == 0:
		return "no public name"
	case f.More > 0:
		return fmt.Sprintf("%s and %d more", strings.Join(f.Names, ", "), f.More)
	}
	return strings.Join(f.Names, ", ")
}

// tlsSilence is how long a TLS failure of one kind at one site is not logged again.
const tlsSilence = time.Minute

// tellTLS logs that TLS with a site, or with the next hop on the way to it, failed.
func (s *Server) tellTLS(x *exchange, err error, a *answer) {
	f := upstream.TLSFailureOf(err)
	if f == nil || !s.lines.tls.due(x.site+" "+a.reason+" "+f.Fault.String(), time.Now()) {
		return
	}
	host := x.target.HostPort()
	if b := x.backend(); b != nil {
		host = b.target.HostPort()
	}
	issuer := ""
	if f.Issuer != "" {
		issuer = fmt.Sprintf(" (issued by %q)", f.Issuer)
	}
	s.log.WithField("site", x.site).Warnf("%s: %s%s; %s", host, a.title, issuer, a.detail)
}
