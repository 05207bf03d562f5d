package routes

import (
	"time"

	"github.com/abide-proxy/abide/limit/learn"
)

// Limit is a limit of a class of requests. It is immutable.
type Limit struct {
	ID     string // unique in its site
	Title  string // for operators: "75 per 15m"
	Entity string // the entity that has the limit for itself: "channels/7"; "": none
	Kind   Kind
	Unit   learn.Unit
	Site   bool // the site counts all requests together, whatever their credentials
}

// Kind selects the meter of a limit. If you add a kind, also change NewMeter in package sites.
type Kind uint8

const (
	Announced Kind = iota // needs ledger.New
	Hidden                // needs ledger.NewHiddenRate: the server refuses without announcing a limit
)

// Class has the limits of the requests of one route. It is immutable: a route whose limits change
// gets another class.
type Class struct {
	Route    string // "GET /2/tweets/*/retweeted_by"; with its host where a site has several
	Template string // the route with a * for its entity
	Unknown  bool   // no response yet: one request goes alone (ledger.NewUnknownRoute)
	Limits   []Limit
	Version  uint64 // of the table when the class was made

	entity entity
}

// Announcement is a limit in a response, with the table's limit that it belongs to.
type Announcement struct {
	ID      string
	Title   string
	Entity  string
	Site    bool // see Limit
	Limit   learn.Limit
	Refused bool
	RetryAt time.Time
	Until   time.Time // until when the limit lets nothing go, by its ledger; zero: that is not known yet
}

// Learned is the result of one response.
type Learned struct {
	Announcements []Announcement
	Changed       bool // the limits of some routes have changed, and Version has grown
}
