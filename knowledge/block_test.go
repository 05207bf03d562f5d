package knowledge

import (
	"testing"
	"time"
)

// newBlock is a block of a site that has answered often.
func newBlock(successes int) *block {
	b := &block{known: "/a", host: "h"}
	for range successes {
		b.succeeded()
	}
	return b
}

// TestAnAnswer403IsVerifiedOnce, with a request that has succeeded before.
func TestAnAnswer403IsVerifiedOnce(t *testing.T) {
	t.Parallel()
	if is := newBlock(usual-1).forbidden(noon, "h"); is != Forbidden {
		t.Errorf("a site that has hardly answered: %v", is)
	}
	if is := newBlock(usual).forbidden(noon, "other"); is != Forbidden {
		t.Errorf("another host: %v", is)
	}
	b := newBlock(usual)
	if is := b.forbidden(noon, "h"); is != Verify {
		t.Fatalf("the first: %v", is)
	}
	if is := b.forbidden(noon.Add(time.Second), "h"); is != Verifying {
		t.Errorf("the second: %v", is)
	}
	if is := b.forbidden(noon.Add(longestVerification+time.Second), "h"); is != Verify {
		t.Errorf("after a verification that has not ended: %v", is)
	}
	b.verified(noon, true)
	if is := b.forbidden(noon, "h"); is != Blocked {
		t.Errorf("a site that blocks: %v", is)
	}
	b.verified(noon, false)
	if is := b.forbidden(noon, "h"); is != Forbidden {
		t.Errorf("a site that does not block: %v", is)
	}
}

// TestPagesThatAreForbiddenAreVerifiedEverMoreSeldom, when there are many of them in a row.
func TestPagesThatAreForbiddenAreVerifiedEverMoreSeldom(t *testing.T) {
	t.Parallel()
	b, verified := newBlock(usual), 0
	for range 1000 {
		if b.forbidden(noon, "h") == Verify {
			verified++
			b.verified(noon, false)
		}
	}
	if verified < 5 || verified > 10 {
		t.Errorf("%d of 1,000 are verified", verified)
	}
	if b.forbidden(noon.Add(trusted+time.Second), "h") != Verify {
		t.Error("they are not verified later")
	}
}
