package admin

import (
	"io"
	"log"
	"net/http"
	"time"
)

// Times and sizes that no honest client of this listener exceeds. A reader that
// does not read holds its connection and goroutine for the write timeout at most.
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 30 * time.Second
	writeTimeout  = 30 * time.Second
	idleTimeout   = 90 * time.Second
	maxHeader     = 64 << 10
)

// Server serves a handler of New with every timeout set.
func Server(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		// "OPTIONS *" is a question to a proxy's next server; the handler says so.
		DisableGeneralOptionsHandler: true,
		// What it would say are strangers' malformed requests; panics are logged
		// by the handler itself.
		ErrorLog: log.New(io.Discard, "", 0),
	}
}
