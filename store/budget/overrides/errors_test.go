package overrides

import (
	"errors"
	"testing"

	"github.com/abide-proxy/abide/status"
)

func TestErrorsSayWhoseFaultTheyAre(t *testing.T) {
	var missing status.Missing
	var kept status.NotKept
	if !errors.As(errNoSuchSite, &missing) {
		t.Error("a site that cannot be is not told as missing")
	}
	if !errors.As(status.Kept(errors.New("disk full")), &kept) || status.Kept(nil) != nil {
		t.Error("limits that are not kept are not told as such")
	}
	for _, err := range []error{errManySites, errNoTokens} {
		if errors.As(err, &missing) || errors.As(err, &kept) {
			t.Errorf("%v is told as another fault", err)
		}
	}
}
