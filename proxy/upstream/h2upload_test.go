package upstream

import "testing"

func TestAnHTTP2BodyThatWasClosedBeforeItsFirstReadIsNeverTouched(t *testing.T) {
	body := newEndless()
	body.hold = make(chan struct{}) // a Read would wait for ever
	u := &upload2{body: body}
	u.Close()
	if n, err := u.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	u.end(false)
	<-body.end // and it is closed in the end
}
