package jobfile

import (
	"reflect"
	"testing"

	"github.com/abide-proxy/abide/policy"
)

func TestADraftIsReadAsItWasWritten(t *testing.T) {
	for _, p := range []Pagination{
		{},
		{Style: AutoPages},
		{Style: LinkPages},
		{Style: NextPages, Next: "@odata.nextLink", Total: "a.b"},
		{Style: CursorPages, Param: "after: #", Next: "next, [x]", More: "true", Total: "123"},
		{Style: CursorPages, Param: "c", Header: "X-Next", Size: 5, SizeParam: "limit"},
		{Style: PagePages, Param: "page[number]", First: 1},
		{Style: OffsetPages, Param: "$skip", First: 20, Size: 20},
	} {
		d := &Draft{Paginate: p, Records: "null", ID: []string{"@id: x"}, Columns: []Column{{Name: "c", Path: "a.b.c"}, {Name: "yes", Path: "yes"}}}
		read, err := Load(policy.Source{Path: "orders.yaml", Data: []byte("name: orders\nrequest: http://api.example.com/\n" + d.Text())})
		if err != nil {
			t.Errorf("%+v: %v\n%s", p, err, d.Text())
			continue
		}
		p.MaxPages = read.Paginate.MaxPages
		if read.Paginate != p || read.Records != d.Records || !reflect.DeepEqual(read.ID, d.ID) || !reflect.DeepEqual(read.Columns, d.Columns) {
			t.Errorf("%+v was read of\n%s", read, d.Text())
		}
	}
	for want, d := range map[string]Draft{"": {}, "records: a\n": {Records: "a"}} {
		if got := d.Text(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
