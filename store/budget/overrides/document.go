package overrides

import (
	"encoding/json"
	"errors"

	"github.com/abide-proxy/abide/policy"
	"github.com/abide-proxy/abide/status"
)

// document is what is kept of a site: {"limits": […], "pause": {…}}. Older releases know the
// limits alone.
type document struct {
	Limits json.RawMessage `json:"limits,omitempty"`
	Pause  *status.Pause   `json:"pause,omitempty"`
}

// format is the document of an override; nil: there is none.
func format(o Override) ([]byte, error) {
	if o.isEmpty() {
		return nil, nil
	}
	var d document
	if o.Limits != nil {
		text, err := policy.FormatLimits(o.Limits)
		if err != nil || o.Pause == nil {
			return text, err
		}
		if err := json.Unmarshal(text, &d); err != nil {
			return nil, err
		}
	}
	d.Pause = o.Pause
	return json.Marshal(d)
}

// parse reads a document.
func parse(text []byte) (o Override, err error) {
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		return o, err
	}
	if d.Limits != nil {
		d.Limits, err = json.Marshal(map[string]json.RawMessage{"limits": d.Limits})
		if err != nil {
			return o, err
		}
		if o.Limits, err = policy.ParseLimits(d.Limits); err != nil {
			return o, err
		}
		if o.Limits == nil {
			o.Limits = []policy.Limit{}
		}
	}
	if o.Pause = d.Pause; o.isEmpty() {
		return o, errors.New("it has neither limits nor a pause")
	}
	return o, nil
}

func same(a, b Override) bool {
	if (a.Limits == nil) != (b.Limits == nil) || !samePause(a.Pause, b.Pause) {
		return false
	}
	return a.Limits == nil || sameLimits(a.Limits, b.Limits)
}
