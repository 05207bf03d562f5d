package permits

import (
	"errors"
	"testing"

	"github.com/abide-proxy/abide/status"
)

func TestErrorsForTheOperatorSayWhoseFaultTheyAre(t *testing.T) {
	var missing status.Missing
	for _, err := range []error{errNone} {
		if !errors.As(err, &missing) {
			t.Errorf("%v is not about what is missing", err)
		}
	}
	if errors.As(errAsk, &missing) {
		t.Error("an ask that cannot be read is about what is missing")
	}
}
