package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/abide-proxy/abide/policy"
)

// SiteLimit is the limit that simulated sites have: so many requests in a window, which
// opens with its first request, or in a period of the calendar in UTC.
type SiteLimit struct {
	Amount  int64
	Per     policy.Period
	ByToken bool // each token has the limit for itself; otherwise each host has one
}

// ParseSiteLimit reads "900 per 15m" and "900 per 15m by token".
func ParseSiteLimit(text string) (*SiteLimit, error) {
	amount, byToken := strings.CutSuffix(strings.TrimSpace(text), " by token")
	quoted, err := json.Marshal(strings.TrimSpace(amount))
	if err != nil {
		return nil, err
	}
	limits, err := policy.ParseLimits([]byte(`{"limits": [{"requests": ` + string(quoted) + `}]}`))
	var faults policy.Faults
	switch {
	case errors.As(err, &faults) && len(faults) > 0:
		return nil, fmt.Errorf(`%q is not a limit such as "900 per 15m" or "900 per 15m by token": %s`, text, faults[0].Text)
	case err != nil:
		return nil, err
	case len(limits) != 1:
		return nil, fmt.Errorf(`%q is not a limit such as "900 per 15m" or "900 per 15m by token"`, text)
	}
	return &SiteLimit{Amount: limits[0].Amount, Per: limits[0].Per, ByToken: byToken}, nil
}

// String is the limit as ParseSiteLimit reads it.
func (l *SiteLimit) String() string {
	text := fmt.Sprintf("%d per %s", l.Amount, l.Per)
	if l.ByToken {
		text += " by token"
	}
	return text
}

// ends is when a window ends that a request opens now.
func (l *SiteLimit) ends(now time.Time) time.Time {
	year, month, day := now.UTC().Date()
	switch l.Per.Calendar {
	case "day":
		day++
	case "week":
		day += 7 - int(now.UTC().Weekday()+6)%7
	case "month":
		month, day = month+1, 1
	default:
		return now.Add(l.Per.Length)
	}
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}
