package status

import "time"

// Live is the event "now" of /api/v1/events: the numbers that change most.
type Live struct {
	Time     time.Time `json:"time"`
	Requests float64   `json:"requests_per_second"` // of the last seconds
	Received float64   `json:"bytes_received_per_second"`
	Sent     float64   `json:"bytes_sent_per_second"`
	Waiting  int       `json:"waiting"` // requests
	// Longest is for how long one of those that wait has waited.
	Longest float64 `json:"longest_wait_seconds"`
}
