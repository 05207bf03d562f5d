package records

import (
	"fmt"
	"strings"
	"testing"

	"github.com/abide-proxy/abide/internal/lists"
	"github.com/abide-proxy/abide/policy/jobfile"
)

func TestListsOfAnAnswerAreFoundAndTheLongestComesFirst(t *testing.T) {
	for body, want := range map[string]string{
		`[1,2]`:                            ` 2`,
		`[]`:                               ` 0`,
		`{"a":[{"x":1}],"b":[{},{}]}`:      `b 2, a 1`,
		`{"a":[{"x":[{},{}]}],"b":[]}`:     `a 1, b 0`,
		`{"d":{"e":[{}],"n":[1,2,3]}}`:     `d.e 1`,
		`{"a.b":[{}],"c[":[{}],"":[{}]}`:   `a.b 1`,
		`{"id":1,"a":[{}]}`:                ``,
		`{"meta":{"id":1},"a":[{}]}`:       `a 1`,
		`{"a":null,"b":3,"c":"[]"}`:        ``,
		`{"data":[],"links":{"self":"/"}}`: `data 0`,
	} {
		found := Lists(Value(body))
		if got := strings.Join(lists.Map(found, func(l List) string { return fmt.Sprintf("%s %d", l.Path, len(l.Elements)) }), ", "); got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
		for _, l := range found {
			if again, ok := Elements(Value(body), l.Path); !ok || len(again) != len(l.Elements) {
				t.Errorf("%s: the path %q leads to %q", body, l.Path, again)
			}
		}
	}
}

func TestAnIDIsProposedWhoseValuesAreAllThereAndDiffer(t *testing.T) {
	for body, want := range map[string]string{
		`[{"name":"a","id":1},{"name":"b","id":2}]`:              "id",
		`[{"id":1,"order_id":1},{"id":1,"order_id":2}]`:          "order_id",
		`[{"id":1,"orderId":1},{"id":null,"orderId":2}]`:         "orderId",
		`[{"id":"","key":"a"},{"id":"x","key":"b"}]`:             "key",
		`[{"paid":1,"valid":2},{"paid":2,"valid":3}]`:            "",
		`[{"sku":1,"name":"a"},{"sku":2,"name":"b"}]`:            "sku",
		`[{"user":{"id":1}},{"user":{"id":2}}]`:                  "user.id",
		`[{"user":{"id":1},"number":5},{"user":{"id":2}}]`:       "user.id",
		`[{"id":1},{"id":1}]`:                                    "",
		`[1,2]`:                                                  "",
		`[{"@id":"a"},{"@id":"b"}]`:                              "@id",
		`[{"id":{"a":1},"uuid":"x"},{"id":{"a":1},"uuid":"y"}]`:  "uuid",
		`[{"keyword":"a","monkey":"b"},{"keyword":"c","k":"e"}]`: "",
	} {
		list, _ := Elements(Value(body), "")
		if got := strings.Join(ProposeID(list), ","); got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}

func TestColumnsAreProposedForShortValues(t *testing.T) {
	body := `[{"id":1,"ID":2,"body":"x","a":"` + strings.Repeat("z", 200) + `","b":null,"c":{"name":1,"list":[1]},"name":2},{"late":true,"a b":1,"n\"":1}]`
	list, _ := Elements(Value(body), "")
	got := lists.Map(ProposeColumns(list, []string{"late"}), func(c jobfile.Column) string { return c.Name + "=" + c.Path })
	if want := "b=b name=c.name"; strings.Join(got, " ") != want {
		t.Errorf("%q, want %q", got, want)
	}
	many := make([]string, 30)
	for i := range many {
		many[i] = fmt.Sprintf(`"c%d":1`, i)
	}
	if n := len(ProposeColumns([]Value{Value("{" + strings.Join(many, ",") + "}")}, nil)); n != mostColumns {
		t.Errorf("%d columns", n)
	}
}

func TestATimeOfTheLastChangeIsFound(t *testing.T) {
	for body, want := range map[string]string{
		`[{"id": 1, "created_at": "2025-01-01", "updated_at": "2025-01-01T10:00:00Z"}, {"updated_at": "2025-01-02T10:00:00Z"}]`: `updated_at "2025-01-01T10:00:00Z"`,
		`[{"meta": {"lastModified": 1738310400}}]`:                           `meta.lastModified 1738310400`,
		`[{"updated": "yes"}]`:                                               "",
		`[{"updated_at": "2025-01-01"}, {"updated_at": null}]`:               "",
		`[{"updates": "2025-01-01"}]`:                                        "",
		`[{"dateUpdated": "2025-01-01", "changed-on": "2025-01-01"}]`:        `dateUpdated "2025-01-01"`,
		`[{"changed-on": "2025-01-01", "modified_utc": "2025-01-01 10:00"}]`: "",
	} {
		answer, err := Read("", []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		list, _ := Elements(answer, "")
		got := ""
		if c, first, has := ProposeSince(list); has {
			got = c.Path + " " + string(first)
		}
		if got != want {
			t.Errorf("%s: %q", body, got)
		}
	}
}
