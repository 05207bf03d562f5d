package problem

import (
	"fmt"
	"strings"
	"time"

	"github.com/abide-proxy/abide/proxy/upstream"
)

// ofTLS are the answers for a site with which TLS failed. The detail of some
// is continued by ofTLSFailure with what the certificate says.
var ofTLS = map[upstream.TLSFault]Problem{
	upstream.TLSOther: {
		Title: "TLS with the site failed", Detail: "the handshake broke off for a reason that abide does not know; the log at level debug has it",
		proxy: "tls_protocol_error",
	},
	upstream.TLSExpired: {
		Title: "the site's certificate has expired", Detail: "the site has to renew it",
		proxy: "tls_certificate_error",
	},
	upstream.TLSNotYetValid: {
		Title: "the site's certificate is not valid yet", Detail: "look at the clock of the machine that abide runs on",
		proxy: "tls_certificate_error",
	},
	upstream.TLSName: {
		Title: "the site's certificate is for another name", Detail: "look at the host of the URL",
		proxy: "tls_certificate_error",
	},
	upstream.TLSIssuer: {
		Title:  "the issuer of the site's certificate is not trusted",
		Detail: "the site may not send its intermediate certificates; for a private authority name its certificate in egress.roots",
		proxy:  "tls_certificate_error",
	},
	upstream.TLSSelfSigned: {
		Title: "the site's certificate is self-signed", Detail: "name it in egress.roots to trust it",
		proxy: "tls_certificate_error",
	},
	upstream.TLSUnusable: {
		Title: "the site's certificate is not fit for a site", Detail: "it cannot be read, or it or one of its issuers may not be used for this",
		proxy: "tls_certificate_error",
	},
	upstream.TLSNoRoots: {
		Title:  "abide's machine has no certificates to trust",
		Detail: "install them on the machine that abide runs on (on Debian: ca-certificates), or name a PEM file with them in egress.roots",
		proxy:  "tls_certificate_error",
	},
	upstream.TLSVersion: {
		Title: "the site has no version of TLS or cipher in common with abide", Detail: "abide speaks TLS 1.2 and 1.3; the site's TLS is too old, or the site does not know this host",
		proxy: "tls_protocol_error",
	},
	upstream.TLSNotTLS: {
		Title: "the site does not speak TLS on this port", Detail: "use http://, or another port",
		proxy: "tls_protocol_error",
	},
	upstream.TLSClient: {
		Title: "the site wants a certificate of the client", Detail: "abide has none to show; the client can show its own where its https passes unread (intercept)",
		proxy: "tls_alert_received",
	},
	upstream.TLSAlert: {
		Title: "the site refused TLS with an alert", Detail: "it may not know this host",
		proxy: "tls_alert_received",
	},
	upstream.TLSCut: {
		Title: "the site closed the connection in the middle of the TLS handshake", Detail: "something on the way may block the host, or the site may be overloaded",
		proxy: "connection_terminated",
	},
}

// hopTLS is the answer for a next hop with which TLS failed. The names in the hop's
// certificate are not for clients.
func hopTLS(f *upstream.TLSFailure) *Problem {
	a := *ofUpstream[upstream.Hop]
	a.Title = "TLS with the next proxy failed"
	a.Detail = strings.ReplaceAll(ofTLS[f.Fault].Title, "the site", "the next proxy") + "; look at egress.proxy and egress.roots"
	return &a
}

// ofTLSFailure says why TLS with a site failed, as its certificate has it.
func ofTLSFailure(f *upstream.TLSFailure) *Problem {
	a := ofTLS[f.Fault]
	a.Reason, a.Status = f.Fault.String(), 502
	switch f.Fault {
	case upstream.TLSExpired:
		a.Detail = "it ended at " + utcMinute(f.At) + "; " + a.Detail
	case upstream.TLSNotYetValid:
		a.Detail = "it begins at " + utcMinute(f.At) + "; " + a.Detail
	case upstream.TLSName:
		a.Detail = "it is for " + namesIn(f) + "; " + a.Detail
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
