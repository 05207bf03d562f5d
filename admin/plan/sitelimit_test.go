package plan

import (
	"testing"
	"time"
)

func TestLimitsOfSitesAreReadAsTheyAreWritten(t *testing.T) {
	for text, want := range map[string]string{
		"900 per 15m": "900 per 15m", " 5/s ": "5 per 1s", "10_000 per month by token": "10000 per month by token",
	} {
		if l, err := ParseSiteLimit(text); err != nil || l.String() != want {
			t.Errorf("%q: %v %v", text, l, err)
		}
	}
	for _, text := range []string{"", "900", "900 per", "0 per 1s", "5MB per 1s", "900 per 15m by client", `5/s"}, {"requests": "6/s`} {
		if l, err := ParseSiteLimit(text); err == nil {
			t.Errorf("%q is %v", text, l)
		}
	}
}

func TestAWindowOfASiteEndsAfterItsLengthOrWithItsPeriod(t *testing.T) {
	at := time.Date(2026, time.February, 28, 23, 30, 0, 0, time.UTC) // a Saturday
	for text, want := range map[string]time.Time{
		"5 per 1h":    at.Add(time.Hour),
		"5 per day":   time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC),
		"5 per week":  time.Date(2026, time.March, 2, 0, 0, 0, 0, time.UTC),
		"5 per month": time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC),
	} {
		l, err := ParseSiteLimit(text)
		if err != nil {
			t.Fatal(err)
		}
		if ends := ends(l, at); !ends.Equal(want) {
			t.Errorf("%s: %v, not %v", text, ends, want)
		}
	}
	l := SiteLimit{Amount: 5}
	l.Per.Calendar = "week"
	monday := time.Date(2026, time.March, 2, 0, 0, 0, 0, time.UTC)
	if ends := ends(&l, monday); !ends.Equal(monday.AddDate(0, 0, 7)) {
		t.Errorf("the week of %v ends at %v", monday, ends)
	}
}

// ends returns the end of a window that a request opens.
func ends(l *SiteLimit, at time.Time) time.Time {
	m := l.meter()
	m.Take(at, 1)
	ends, _ := m.When(at, l.Amount)
	return ends
}
