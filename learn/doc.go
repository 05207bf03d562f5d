// Package learn says what one HTTP response teaches about limits: whether it was
// a refusal, of whom, until when, and which limits it announced with how much
// left of each.
//
//	lesson := learn.Read(response.StatusCode, response.Header, head, learn.Request{
//		Method: "GET", Host: "api.github.com", Path: "/user",
//	}, time.Now())
//	if lesson.Throttled && !lesson.RetryAt.IsZero() {
//		// nothing of lesson.Scope goes before lesson.RetryAt
//	}
//
// It is pure: it keeps nothing between two responses but which header names mean
// what, and believes no server. Malformed values are as if they had not been
// sent, times lie within 31 days, and no input makes it panic.
//
// A response is read in this order. Header names are normalised and taken apart
// into a family, a dimension and a role (name.go). Values are numbers (number.go),
// times (when.go) or lists of items (item.go). The headers of one family and
// dimension make one limit (group.go), families that agree make one together.
// What the general rules cannot know is in rows, one a service (dialects.go), and
// in the words of bodies (body.go). Then it is summed up (read.go, sum.go).
package learn
