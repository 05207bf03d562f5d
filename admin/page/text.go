package page

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/abide-proxy/abide/status"
)

// first returns as many items as the page lists.
func first[T any](list []T) []T { return list[:min(len(list), status.MaxListed)] }

// longForecasts returns the forecasts of long windows, as many as the page lists.
func longForecasts(list []status.Forecast) (long []status.Forecast) {
	for _, one := range list {
		if one.Long() && len(long) < status.MaxListed {
			long = append(long, one)
		}
	}
	return long
}

// perSecond formats a rate: "0", "0.3", "42".
func perSecond(rate float64) string {
	switch {
	case rate <= 0:
		return "0"
	case rate < 0.05:
		return "< 0.1"
	case rate < 9.95:
		return strconv.FormatFloat(rate, 'f', 1, 64)
	}
	return status.Count(uint64(math.Round(rate)))
}

// bytesPerSecond formats a rate of bytes.
func bytesPerSecond(rate float64) string { return status.Size(uint64(max(rate, 0))) + "/s" }

// span formats a time in seconds: "3 min 05 s".
func span(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d < time.Second:
		return "under 1 s"
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min %02d s", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%d h %02d min", d/time.Hour, d%time.Hour/time.Minute)
}
