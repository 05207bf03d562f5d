package admin

import (
	"context"
	"time"

	"github.com/abide-proxy/abide/admin/page"
	"github.com/abide-proxy/abide/status"
)

// pagePatience is how long the page waits for what is looked up.
const pagePatience = 2 * time.Second

// periods are the parts of the past that the page draws.
var periods = []page.Period{
	{Name: "hour", Step: time.Minute, Steps: 60},
	{Name: "day", Step: time.Hour, Steps: 24},
	{Name: "month", Step: 24 * time.Hour, Steps: 31},
}

// pastOf is the recorded traffic of the last hour, day and month; without periods where there
// was none.
func pastOf(ctx context.Context, from recorder, now time.Time) (past page.Past) {
	some := false
	for _, one := range periods {
		one.Since = now.UTC().Truncate(one.Step).Add(-time.Duration(one.Steps-1) * one.Step)
		list, err := from.Bandwidth(ctx, "", one.Since, now, one.Step)
		if err != nil {
			return page.Past{Err: "What is recorded cannot be read: " + status.ErrorLine(err)}
		}
		some = some || len(list) > 0
		one.Traffic = list
		past.Periods = append(past.Periods, one)
	}
	if !some {
		past.Periods = nil
	}
	return past
}
