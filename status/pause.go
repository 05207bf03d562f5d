package status

import (
	"strings"
	"time"
)

// MaxPauseReason is the longest reason of a pause, in bytes.
const MaxPauseReason = 200

// Pause is a pause of a site: the operator lets no request go to the site.
type Pause struct {
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until,omitzero"` // zero: until the site is resumed
}

// Over tells whether the pause has ended by itself.
func (p *Pause) Over(now time.Time) bool { return !p.Until.IsZero() && !p.Until.After(now) }

// pauseTitle begins the title of each pause.
const pauseTitle = "paused by the operator"

// IsPause tells whether a limit that holds requests back is a pause, by the limit's title.
func IsPause(limit string) bool { return strings.HasPrefix(limit, pauseTitle) }

// Title is the pause as what holds requests back.
func (p *Pause) Title() string {
	title := pauseTitle
	if !p.Until.IsZero() {
		title += " until " + p.Until.UTC().Format(time.RFC3339)
	}
	if p.Reason != "" {
		title += ": " + p.Reason
	}
	return title
}

// SitePause is the API's answer about the pause of a site.
type SitePause struct {
	Site   string `json:"site"`
	Paused bool   `json:"paused"`
	*Pause
}
