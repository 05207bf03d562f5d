package dispatch

import (
	"net/url"
	"testing"
)

func TestAnHTTPSURLIsExplainedWithoutAClientsSide(t *testing.T) {
	v := NewView(newDispatcher(t, "sites: [{host: "+host+", limits: [{requests: 1, per: 1s}]}]"), nil)
	e, err := v.Explain("GET", &url.URL{Scheme: "https", Host: host, Path: "/"}, "")
	if err != nil || e.Unread != "" || !e.Intercepted || len(e.Limits) != 1 {
		t.Errorf("%+v, %v", e, err)
	}
}
