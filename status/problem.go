package status

import "time"

// Problem is an error in the form of RFC 9457, with the faults of a configuration or of
// limits set at run time.
type Problem struct {
	Title  string  `json:"title"`
	Status int     `json:"status"`
	Detail string  `json:"detail,omitempty"`
	Faults []Fault `json:"faults,omitempty"`
}

// RefusedReload is a configuration that was refused, because of its faults or because it
// needs a restart. The previous one stays in use.
type RefusedReload struct {
	Since  time.Time `json:"since"` // the first refusal after the last reload that succeeded
	Error  string    `json:"error"` // of the last refusal, in one line
	Faults []Fault   `json:"faults,omitempty"`
}

// Fault is one fault of a configuration, or of limits set at run time.
type Fault struct {
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	Key  string `json:"key,omitempty"`
	Text string `json:"text"`
}

// Reloaded is the answer of a successful reload.
type Reloaded struct {
	Reloaded bool     `json:"reloaded"`
	Changes  []string `json:"changes"`
}
