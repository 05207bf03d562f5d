package backends

import (
	"errors"
	"net/http"

	"github.com/abide-proxy/abide/proxy/upstream"
)

// Health is what an attempt says about whether its site works at all.
type Health uint8

const (
	Unknown Health = iota // the client's doing, or abide's
	Well
	Ill
)

// HealthOf reads an attempt: its status, or its error. A refusal because of a limit is a
// sign of life.
func HealthOf(status int, err error, refused bool) Health {
	switch {
	case err != nil:
		return Blame(err)
	case refused:
		return Well
	case status == http.StatusBadGateway, status == http.StatusServiceUnavailable, status == http.StatusGatewayTimeout:
		return Ill
	}
	return Well
}

// Blame is Ill for an error that is the site's, Unknown for any other.
func Blame(err error) Health {
	var e *upstream.Error
	if errors.As(err, &e) && e.Stale {
		return Unknown // the site has closed an idle connection
	}
	switch upstream.KindOf(err) {
	case upstream.Resolve, upstream.Refused, upstream.Unreachable, upstream.ConnectTimeout, upstream.TLS,
		upstream.AnswerTimeout, upstream.Stalled, upstream.Closed, upstream.Protocol:
		return Ill
	}
	return Unknown
}
