// Package npytest writes arrays for tests. Tests of readers call it.
package npytest

import (
	"encoding/binary"
	"fmt"
	"io"
	"reflect"

	"weft/internal/atomicfile"
	"weft/internal/npy"
)

// WriteFile writes data ([]float32, []float64, []int32, []int64, []uint8 or []bool, in row order) as an array
// of that shape; without a shape it has one dimension. The file replaces one of the same name.
func WriteFile(path string, data any, shape ...int) error {
	return atomicfile.Write(path, func(w io.Writer) error { return Write(w, data, shape...) })
}

// Write writes data as WriteFile does.
func Write(w io.Writer, data any, shape ...int) error {
	v := reflect.ValueOf(data)
	descr, known := map[reflect.Kind]string{
		reflect.Float32: "<f4", reflect.Float64: "<f8", reflect.Int32: "<i4", reflect.Int64: "<i8",
		reflect.Uint8: "|u1", reflect.Bool: "|b1",
	}[v.Type().Elem().Kind()]
	if !known {
		return fmt.Errorf("a %T is not written as an array", data)
	}
	if len(shape) == 0 {
		shape = []int{v.Len()}
	}
	if _, err := npy.NewWriter(w, descr, shape...); err != nil {
		return err
	}
	return binary.Write(w, binary.LittleEndian, data)
}
