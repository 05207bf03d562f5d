package dispatch

import (
	"testing"

	"github.com/abide-proxy/abide/policy"
)

func TestAClientLowersItsPriorityAndDoesNotRaiseIt(t *testing.T) {
	rule := &policy.Site{Priority: 1}
	for _, c := range []struct {
		client *Client
		rule   *policy.Site
		header int // -1: none
		want   int
	}{
		{nil, nil, -1, 3},
		{nil, rule, -1, 1},
		{nil, rule, 0, 0},
		{&Client{Priority: 3}, rule, -1, 1},
		{&Client{Priority: 3}, rule, 0, 0}, // its operator gave it none
		{&Client{Priority: 3, Capped: true}, rule, -1, 3},
		{&Client{Priority: 3, Capped: true}, rule, 0, 3},
		{&Client{Priority: 5, Capped: true}, nil, 2, 5},
		{&Client{Priority: 5, Capped: true}, nil, 7, 7},
		{&Client{Priority: 0, Capped: true}, nil, 0, 0},
	} {
		x := &Request{Client: c.client, rule: c.rule, Options: RequestOptions{Urgency: c.header + 1}}
		if got := x.priority(); got != c.want {
			t.Errorf("%+v, header %d: %d, want %d", c.client, c.header, got, c.want)
		}
	}
}
