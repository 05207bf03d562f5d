package main

import (
	"io"
	standard "log"
	"os"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/policy"
)

func newLog(out io.Writer, p policy.Log) *logrus.Logger {
	log := logrus.New()
	log.SetOutput(out)
	setLog(log, p)
	// Some libraries write to the standard log. Their lines may quote a
	// client or site, so they have level debug.
	standard.SetFlags(0)
	standard.SetOutput(debugWriter{log})
	return log
}

type debugWriter struct{ log *logrus.Logger }

func (w debugWriter) Write(p []byte) (int, error) {
	w.log.Debug("library: ", strings.TrimSpace(string(p)))
	return len(p), nil
}

// setLog configures a log, at start and on reload.
func setLog(log *logrus.Logger, p policy.Log) {
	if level, err := logrus.ParseLevel(p.Level); err == nil {
		log.SetLevel(level)
	}
	if p.Format == "json" {
		log.SetFormatter(&logrus.JSONFormatter{TimestampFormat: time.RFC3339Nano})
		return
	}
	_, onTerminal := log.Out.(*liveLine) // logrus does not know
	plain := os.Getenv("NO_COLOR") != ""
	log.SetFormatter(&logrus.TextFormatter{FullTimestamp: true, DisableColors: plain, ForceColors: onTerminal && !plain})
}

// warnOfProxyVariables logs that abide itself ignores the usual proxy variables. Their
// values may hold a password and are not logged.
func warnOfProxyVariables(log *logrus.Logger, p *policy.Policy) {
	if p.Egress.Proxy != nil {
		return
	}
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"} {
		if os.Getenv(name) != "" {
			log.Warnf("abide does not use its own %s; egress.proxy (ABIDE_EGRESS_PROXY) names the next hop, if there is one", name)
			return
		}
	}
}
