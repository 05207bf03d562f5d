package admin

import (
	"encoding/json"
	"reflect"
	"time"
)

// filled is a value of a type with something in every field.
func filled[T any]() (v T) {
	fill(reflect.ValueOf(&v).Elem())
	return v
}

// fill puts something into a value, and into all that it has.
func fill(v reflect.Value) {
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Date(2026, time.March, 1, 12, 0, 0, 0, time.FixedZone("", 3600))))
		return
	case json.RawMessage:
		v.Set(reflect.ValueOf(json.RawMessage(`[]`)))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint64:
		v.SetUint(1)
	case reflect.Float64:
		v.SetFloat(1.5)
	case reflect.String:
		v.SetString("api.example.com")
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i))
			}
		}
	}
}
