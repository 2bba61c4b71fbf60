package device_test

import (
	"bytes"
	"encoding/binary"
	"testing"
	"unsafe"

	"weft/device"
	"weft/device/devicetest"
	_ "weft/kernel" // whose headers the kernels include
)

func TestFill(t *testing.T) {
	devicetest.Library(t)
	d, err := device.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	p, err := d.Alloc(1024)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Free(p)
	if !d.Has("fill_float32") || d.Has("nothing") {
		t.Error("has")
	}
	args := struct {
		p           uint64
		bits        uint32
		_           uint32
		first, last int64
	}{p: p, bits: 0x01020304, last: 256}
	d.Launch("fill_float32", 1, 256, unsafe.Pointer(&args), int(unsafe.Sizeof(args)))
	got := make([]byte, 1024)
	if err := d.ToHost(got, p); err != nil {
		t.Fatal(err)
	}
	if want := bytes.Repeat(binary.LittleEndian.AppendUint32(nil, 0x01020304), 256); !bytes.Equal(got, want) {
		t.Error(got)
	}
}
