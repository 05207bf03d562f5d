package sites

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
	if access := newBlock(usual-1).forbidden(noon, "h", Page{}, true); access != Forbidden {
		t.Errorf("a site that has hardly answered: %v", access)
	}
	if access := newBlock(usual).forbidden(noon, "other", Page{}, true); access != Forbidden {
		t.Errorf("another host: %v", access)
	}
	b := newBlock(usual)
	if access := b.forbidden(noon, "h", Page{}, true); access != Verify {
		t.Fatalf("the first: %v", access)
	}
	if access := b.forbidden(noon.Add(time.Second), "h", Page{}, true); access != Verifying {
		t.Errorf("the second: %v", access)
	}
	if access := b.forbidden(noon.Add(longestVerification+time.Second), "h", Page{}, true); access != Verify {
		t.Errorf("after a verification that has not ended: %v", access)
	}
	b.verified(noon, true)
	if access := b.forbidden(noon, "h", Page{}, true); access != Blocked {
		t.Errorf("a site that blocks: %v", access)
	}
	b = newBlock(usual)
	b.forbidden(noon, "h", Page{}, true)
	b.verified(noon, false)
	if access := b.forbidden(noon, "h", Page{}, true); access != Forbidden {
		t.Errorf("a site that does not block: %v", access)
	}
}

// TestPagesThatAreForbiddenAreVerifiedEverMoreSeldom, when there are many of them in a row.
func TestPagesThatAreForbiddenAreVerifiedEverMoreSeldom(t *testing.T) {
	t.Parallel()
	b, verified := newBlock(usual), 0
	for range 1000 {
		if b.forbidden(noon, "h", Page{}, true) == Verify {
			verified++
			b.verified(noon, false)
		}
	}
	if verified < 5 || verified > 10 {
		t.Errorf("%d of 1,000 are verified", verified)
	}
	if b.forbidden(noon.Add(trusted+time.Second), "h", Page{}, true) != Verify {
		t.Error("they are not verified later")
	}
}

// TestABlockAfterABlockIsVerifiedAtOnce: that the first is over is no word on the second.
func TestABlockAfterABlockIsVerifiedAtOnce(t *testing.T) {
	t.Parallel()
	b := newBlock(usual)
	for range 3 {
		if access := b.forbidden(noon, "h", Page{}, true); access != Verify {
			t.Fatalf("the first page of a block: %v", access)
		}
		b.verified(noon, true)
		b.verified(noon.Add(time.Minute), false) // it is over
		b.succeeded()
	}
}

// TestAPageThatLooksDifferentIsVerified although pages of another look are the site's own.
func TestAPageThatLooksDifferentIsVerified(t *testing.T) {
	t.Parallel()
	page, other := Page{Sum: 120}, Page{Sum: 80}
	b := newBlock(usual)
	b.forbidden(noon, "h", page, true)
	b.verified(noon, false)
	if access := b.forbidden(noon, "h", page, true); access != Forbidden {
		t.Errorf("the site's own page: %v", access)
	}
	if access := b.forbidden(noon, "h", other, true); access != Verify {
		t.Errorf("another page: %v", access)
	}
	// Where each page looks different, the look tells nothing.
	b = newBlock(usual)
	verified := 0
	for i := range 100 {
		if b.succeeded(); b.forbidden(noon, "h", Page{Sum: uint64(i)}, true) == Verify {
			verified++
			b.verified(noon, false)
		}
	}
	if verified != mostPages {
		t.Errorf("%d of 100 pages are verified", verified)
	}
}
