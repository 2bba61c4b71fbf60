package device_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"weft/device"
	"weft/device/devicetest"
	"weft/internal/assert"
	"weft/internal/refusal"
	"weft/internal/require"
	_ "weft/kernel" // whose headers the kernels include
)

// libraries is the folder of libraries that tests compile. It is empty in processes that a test expects to
// end.
var libraries string

func TestMain(m *testing.M) {
	status := m.Run()
	_ = os.RemoveAll(libraries)
	os.Exit(status)
}

var buildLibrary = sync.OnceValue(func() error {
	folder, err := os.MkdirTemp("", "weft-device")
	if err != nil {
		return err
	}
	libraries = folder
	build := exec.Command("oncpu/build", filepath.Join(libraries, "libcuda.so"), "device/oncpu/testdata")
	build.Env = append(os.Environ(), "CXXFLAGS=-O1 -fsanitize=alignment")
	output, err := build.CombinedOutput()
	if err != nil {
		return errors.New(string(output))
	}
	return nil
})

// library returns the path of a libcuda on the CPU with the kernels of oncpu/testdata.
func library(t *testing.T) string {
	t.Helper()
	devicetest.Compiler(t)
	t.Cleanup(func() { _ = device.CloseCards() }) // a card that has failed returns its error once more
	if err := buildLibrary(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(libraries, "libcuda.so")
}

// stub compiles a library of C.
func stub(t *testing.T, name, source string) string {
	t.Helper()
	compiled := filepath.Join(t.TempDir(), name)
	compile := exec.Command("gcc", "-shared", "-fPIC", "-o", compiled, "-xc", "-")
	compile.Stdin = strings.NewReader(source)
	output, err := compile.CombinedOutput()
	assert.NoError(t, err, string(output))
	return compiled
}

// fillArgs are those of over_rows<weft_fill_args> (kernels/warp.cuh).
type fillArgs struct {
	p           uint64
	bits, _     uint32
	first, last int64
}

// launch runs a kernel with 64 threads on 256 bytes, which begin as ones, and returns a copy of them.
func launch(kernel string) (got []byte, err error) {
	d, err := device.Open(0)
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, d.Close()) }()
	p, err := d.Alloc(512)
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, d.Free(p)) }()
	// A call that does not wait may fail unseen: the wait returns the error.
	from := bytes.Repeat([]byte{1}, 256)
	_ = d.ToDevice(p+256, from)
	clear(from)
	args := fillArgs{p: p + 256, bits: 0x01020304, last: 60}
	_ = d.Launch(kernel, 1, 64, unsafe.Pointer(&args), int(unsafe.Sizeof(args)))
	_ = d.Copy(p, p+256, 256)
	got = make([]byte, 256)
	return got, d.ToHost(got, p)
}

func TestLaunch(t *testing.T) {
	t.Setenv("WEFT_CUDA", library(t))
	want := slices.Concat(bytes.Repeat([]byte{4, 3, 2, 1}, 60), bytes.Repeat([]byte{1}, 16))
	var workers sync.WaitGroup
	for range 4 { // devices with several streams
		workers.Go(func() {
			got, err := launch("fill_float32")
			assert.NoError(t, err)
			assert.Equal(t, want, got)
		})
	}
	workers.Wait()
	d, err := device.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	assert.Equal(t, true, d.Has("fill_float32"))
	assert.Equal(t, false, d.Has("fill"))
	p, err := d.Alloc(1000)
	assert.NoError(t, err)
	got := make([]byte, 1000)
	assert.NoError(t, d.ToHost(got, p))
	assert.Equal(t, bytes.Repeat([]byte{0xff}, 1000), got) // NaN until something is written
	free, total, err := d.Memory()
	assert.NoError(t, err)
	assert.Equal(t, 1000, total-free)
	major, minor := d.Capability()
	assert.Equal(t, "CPU in place of a GPU 13.0 9.0", fmt.Sprintf("%s %s %d.%d", d.Name(), d.Driver(), major, minor))
}

// elsewhere are uses, by card 1, of something that belongs to card 0, with the last line of the process. p is
// an address on card 0.
var elsewhere = map[string]struct {
	use  func(there, here *device.Device, p uint64) error
	line string
}{
	"copy": {
		func(_, here *device.Device, p uint64) error { return here.ToHost(make([]byte, 8), p) },
		"cuMemcpyDtoHAsync_v2: the context is that of cuda:1, and an address is of cuda:0",
	},
	"free": {
		func(_, here *device.Device, p uint64) error { return here.Free(p) },
		"cuMemFree_v2: the context is that of cuda:1, and an address is of cuda:0",
	},
	"argument": {
		func(_, here *device.Device, p uint64) error {
			args := fillArgs{p: p, last: 1}
			return cmp.Or(here.Launch("fill_float32", 1, 64, unsafe.Pointer(&args), int(unsafe.Sizeof(args))),
				here.Sync())
		},
		"fill_float32: the context is that of cuda:1, and an address is of cuda:0",
	},
	"stream": {
		func(there, here *device.Device, _ uint64) error { return device.Mixed(here, there, here).Sync() },
		"cuStreamSynchronize: the context is that of cuda:1, and the stream is of cuda:0",
	},
	"function": {
		func(there, here *device.Device, _ uint64) error {
			there.Has("fill_float32")
			return device.Mixed(here, here, there).Launch("fill_float32", 1, 64, nil, 0)
		},
		"cuLaunchKernel: the context is that of cuda:1, and the function is of cuda:0",
	},
	"event": {
		func(there, here *device.Device, _ uint64) error {
			_, err := there.Pinned(8)
			_, err2 := device.Mixed(here, there, here).Mark()
			return cmp.Or(err, err2)
		},
		"cuEventRecord: the context is that of cuda:1, and the event is of cuda:0",
	},
}

// TestCards: each card has its memory, whichever thread asks. A process that uses on one card something that
// belongs to another ends with a line.
func TestCards(t *testing.T) {
	if os.Getenv("TEST_USE") == "" { // the processes below find the library by the environment
		t.Setenv("WEFT_CUDA", library(t))
	}
	t.Setenv("ON_CPU_CARDS", "2")
	var devices [2]*device.Device
	for number := range devices {
		d, err := device.Open(number)
		assert.NoError(t, err)
		devices[number] = d
	}
	p, err := devices[0].Alloc(1000)
	assert.NoError(t, err)
	free, total, err := devices[1].Memory()
	assert.NoError(t, err)
	assert.Equal(t, total, free)
	if use := elsewhere[os.Getenv("TEST_USE")].use; use != nil {
		t.Fatal(use(devices[0], devices[1], p))
	}
	if devices[0].ID() == devices[1].ID() {
		t.Errorf("both cards are %s", devices[0].ID())
	}
	for _, d := range devices {
		assert.NoError(t, d.Close())
	}
	for name, c := range elsewhere {
		run := exec.Command(os.Args[0], "-test.run=^TestCards$")
		run.Env = append(os.Environ(), "TEST_USE="+name)
		output, err := run.CombinedOutput()
		if want := "libcuda-on-cpu: " + c.line + "\n"; string(output) != want {
			t.Errorf("%s: %v\n%s\nnot\n%s", name, err, output, want)
		}
	}
}

// TestFails: each failure of a driver becomes an error with the right text. fail is ON_CPU_FAIL: a call of a
// function, and its status.
func TestFails(t *testing.T) {
	const (
		invalid  = ": CUDA_ERROR_INVALID_VALUE: invalid argument"
		late     = "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered"
		launched = " (launched last: fill_float32; WEFT_DEVICE_SYNC=1 finds the kernel)"
	)
	for _, c := range []struct{ name, value, message string }{
		{"ON_CPU_CARDS", "0", "no card is visible on this machine: look at nvidia-smi and CUDA_VISIBLE_DEVICES"},
		{"ON_CPU_DRIVER", "11040", "the driver is too old: it is one of CUDA 11.4; " +
			"install NVIDIA's driver 525 (CUDA 12.0) or later"},
		{"ON_CPU_CAPABILITY", "75", "cuda:0: CPU in place of a GPU is of sm_75: " +
			"needs 8.0, as A100 and RTX 30 have, or later"},
		{"ON_CPU_MEMORY", "511", "the card's memory is full: no 512 bytes are free"},
		{"ON_CPU_FAIL", "cuDeviceGetCount 1 999", "starting the driver: CUDA's error 999: look at nvidia-smi"},
		{"ON_CPU_FAIL", "cuInit 1 999", "starting the driver: CUDA's error 999: look at nvidia-smi"},
		{"ON_CPU_FAIL", "cuDeviceGet 1 1", "selecting the card" + invalid},
		{"ON_CPU_FAIL", "cuDeviceGetName 1 1", "selecting the card" + invalid},
		{"ON_CPU_FAIL", "cuDeviceGetAttribute 2 1", "selecting the card" + invalid},
		{"ON_CPU_FAIL", "cuDevicePrimaryCtxRetain 1 2", "opening the card: " +
			"CUDA_ERROR_OUT_OF_MEMORY: out of memory"},
		{"ON_CPU_FAIL", "cuStreamCreate 1 1", "opening the device" + invalid},
		{"ON_CPU_FAIL", "cuModuleLoadData 1 1", "loading the kernels" + invalid},
		{"ON_CPU_FAIL", "cuModuleGetFunction 1 1", "finding the kernel fill_float32" + invalid},
		{"ON_CPU_FAIL", "cuMemAlloc_v2 1 1", "allocating 512 bytes on the card" + invalid},
		{"ON_CPU_FAIL", "cuMemcpyHtoDAsync_v2 1 1", "copying to the card" + invalid},
		{"ON_CPU_FAIL", "cuMemcpyDtoDAsync_v2 1 1", "copying on the card" + invalid + launched},
		{"ON_CPU_FAIL", "cuMemcpyDtoHAsync_v2 1 1", "copying from the card" + invalid + launched},
		{"ON_CPU_FAIL", "cuMemFree_v2 1 1", "freeing memory of the card" + invalid},
		{"ON_CPU_FAIL", "cuStreamSynchronize 1 1", "waiting for the card" + invalid + launched},
		{"ON_CPU_FAIL", "cuCtxSetCurrent 1 1", "loading the kernels" + invalid},
		{"ON_CPU_FAIL", "cuCtxSetCurrent 3 1", "allocating 512 bytes on the card" + invalid},
		{"ON_CPU_FAIL", "cuCtxSetCurrent 4 1", "copying to the card" + invalid},
		{"ON_CPU_FAIL", "cuStreamDestroy_v2 1 1", "closing the device" + invalid},
		{"ON_CPU_FAIL", "cuModuleUnload 1 1", "closing the card" + invalid},
		{"ON_CPU_FAIL", "cuDevicePrimaryCtxRelease_v2 1 1", "closing the card" + invalid},
		{"ON_CPU_FAIL", "cuLaunchKernel 1 1", "launching fill_float32" + invalid},
		{"ON_CPU_FAIL", "cuLaunchKernel 1 700", "copying on the card: " + late + launched},
		{"ON_CPU_PAGEABLE", "1", "copying to the card" + invalid},
		{"WEFT_DEVICE_SYNC", "1", "kernel fill_float32: " + late},
	} {
		t.Run(c.name+" "+c.value, func(t *testing.T) {
			t.Setenv("WEFT_CUDA", library(t))
			switch c.name {
			case "WEFT_DEVICE_SYNC":
				t.Setenv("ON_CPU_FAIL", "cuLaunchKernel 1 700")
			case "ON_CPU_PAGEABLE":
				t.Setenv("ON_CPU_FAIL", "cuStreamSynchronize 1 1")
			}
			t.Setenv(c.name, c.value)
			_, err := launch("fill_float32")
			err = cmp.Or(err, device.CloseCards())
			if !refusal.Is(err) {
				c.message = "cuda:0: " + c.message
			}
			assert.EqualError(t, err, c.message)
			assert.Equal(t, c.name == "ON_CPU_MEMORY", errors.Is(err, device.ErrOutOfMemory))
			assert.Equal(t, strings.Contains("ON_CPU_CARDS ON_CPU_DRIVER ON_CPU_CAPABILITY", c.name) ||
				strings.Contains(c.message, "nvidia-smi"), refusal.Is(err))
		})
	}
}

func TestOtherLibraries(t *testing.T) {
	for name, message := range map[string]string{
		"/nowhere/libcuda.so.1": "WEFT_CUDA: /nowhere/libcuda.so.1: cannot open shared object file: " +
			"No such file or directory: name NVIDIA's libcuda.so.1, or unset it",
		stub(t, "old.so", "int cuInit(unsigned flags) { return 0; }"): "old.so lacks cuDriverGetVersion: " +
			"install NVIDIA's driver 525 or later",
	} {
		t.Setenv("WEFT_CUDA", name)
		_, err := device.Open(0)
		assert.Refused(t, err, message)
	}
	t.Setenv("WEFT_CUDA", library(t))
	for _, number := range []int{7, -1} {
		for _, f := range []func() error{
			func() error { _, err := device.Open(number); return err },
			func() error { _, err := device.Numbers([]int{0, number}); return err },
		} {
			assert.EqualRefusal(t, f(), fmt.Sprintf("cuda:%d: this machine has 1 card: name cuda:0", number))
		}
	}
	t.Setenv("ON_CPU_CARDS", "3")
	all, err := device.Numbers(nil)
	assert.NoError(t, err)
	assert.Equal(t, []int{0, 1, 2}, all)
}

// TestCode: code comes from a file beside the program, from the cache folder, or from NVRTC, which compiles
// once.
func TestCode(t *testing.T) {
	source, err := os.ReadFile("testdata/nvrtc.c")
	assert.NoError(t, err)
	nvrtc := stub(t, "libnvrtc.so.12", string(source))
	folder, cache, log := filepath.Dir(nvrtc), t.TempDir(), filepath.Join(t.TempDir(), "log")
	const line = "compiling kernels for sm_90, which is done once: %s/kernels keeps them\n" +
		"--std=c++17 -default-device --fmad=false --split-compile=0 --gpu-architecture=sm_90 \ndone\n"
	again := strings.Replace(line, "done\n",
		"--std=c++17 -default-device --fmad=false --gpu-architecture=sm_90 \ndone\n", 1)
	write := func(text string) {
		f, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o666)
		assert.NoError(t, err)
		fmt.Fprintln(f, text)
		assert.NoError(t, f.Close())
	}
	before := device.Compiling
	t.Cleanup(func() { device.Compiling = before })
	device.Compiling = func(what string) func() {
		write(what)
		return func() { write("done") }
	}
	// open opens a card, and expects so many compilations; −1: one with all options, and one without one of
	// them.
	open := func(want string, compilations int, settings ...string) {
		t.Helper()
		for i := 0; i < len(settings); i += 2 {
			t.Setenv(settings[i], settings[i+1])
		}
		d, err := device.Open(0)
		if err == nil {
			assert.NoError(t, d.Close())
			assert.NoError(t, device.CloseCards())
			err = errors.New("")
		}
		assert.ErrorContains(t, err, want)
		assert.Equal(t, want != "" && !strings.HasPrefix(want, "status"), refusal.Is(err), err)
		logged, err := os.ReadFile(log)
		assert.NoError(t, err)
		want = strings.Repeat(line, max(0, compilations))
		if compilations < 0 {
			want = again
		}
		want = strings.ReplaceAll(want, "%s", os.Getenv("WEFT_CACHE"))
		assert.Equal(t, want, string(logged))
		assert.NoError(t, os.WriteFile(log, nil, 0o666))
	}
	assert.NoError(t, os.WriteFile(log, nil, 0o666))
	open("WEFT_NVRTC: /nowhere: no NVRTC 12 or later there", 0, "WEFT_CUDA", library(t), "ON_CPU_IMAGE", "--std",
		"WEFT_CACHE", cache, "STUB_LOG", log, "STUB_VERSION", "12.9", "STUB_FAILS", "",
		"WEFT_NVRTC", "/nowhere")
	open("status 6: kernels.cu(1): error", 1, "WEFT_NVRTC", nvrtc, "STUB_FAILS", "kernels.cu(1): error\nmore")
	open("", 1, "STUB_FAILS", "", "WEFT_NVRTC", folder)
	open("", 0)
	kept, err := filepath.Glob(filepath.Join(cache, "kernels", "sm_90-*-nvrtc12.9"))
	assert.NoError(t, err)
	assert.Len(t, kept, 1)
	for _, damage := range []func([]byte) []byte{
		func(b []byte) []byte { return b[:len(b)-1] },
		func(b []byte) []byte { b[40] ^= 1; return b },
		func([]byte) []byte { return nil },
	} {
		content, err := os.ReadFile(kept[0])
		assert.NoError(t, err)
		assert.NoError(t, os.WriteFile(kept[0], damage(content), 0o666))
		open("", 1)
		open("", 0)
	}
	open("", 1, "STUB_VERSION", "12.10")                                  // another version compiles anew
	open("", -1, "STUB_VERSION", "12.0", "STUB_FAILS", "--split-compile") // and without what 12.0 lacks
	open("status 5: --std", -1, "STUB_VERSION", "12.1", "STUB_FAILS", "--std")
	t.Setenv("STUB_FAILS", "")
	open("for later drivers than this machine's, of CUDA 12", 0, "STUB_VERSION", "13.0", "ON_CPU_DRIVER", "12090")
	open("WEFT_CACHE", 1, "ON_CPU_DRIVER", "13000", "WEFT_CACHE", filepath.Join(nvrtc, "file"))

	program, err := os.Executable()
	assert.NoError(t, err)
	name := filepath.Join(filepath.Dir(program), "..", "lib", "weft", "kernels", device.CubinName(90))
	t.Cleanup(func() { // removes the file, and folders that are then empty
		for made, i := name, 0; i < 4; made, i = filepath.Dir(made), i+1 {
			_ = os.Remove(made)
		}
	})
	assert.NoError(t, os.MkdirAll(filepath.Dir(name), 0o777))
	assert.NoError(t, os.WriteFile(name, []byte("beside"), 0o666))
	open("", 0, "ON_CPU_IMAGE", "beside", "WEFT_NVRTC", "/nowhere")
	open("", 0, "ON_CPU_CAPABILITY", "92") // a later card of the same major number
	open("/nowhere", 0, "ON_CPU_CAPABILITY", "100")
}

// TestElapsed: the seconds of a kernel are counted from the end of earlier work. A failure is returned.
func TestElapsed(t *testing.T) {
	const invalid = "CUDA_ERROR_INVALID_VALUE: invalid argument"
	for fail, message := range map[string]string{
		"":                       "",
		"cuEventCreate 2 1":      "cuda:0: starting a timer: " + invalid,
		"cuEventRecord 1 1":      "cuda:0: starting a timer: " + invalid,
		"cuEventElapsedTime 1 1": "cuda:0: reading a timer: " + invalid,
		"cuEventDestroy_v2 1 1":  "cuda:0: closing a timer: " + invalid,
	} {
		t.Setenv("WEFT_CUDA", library(t))
		t.Setenv("ON_CPU_FAIL", fail)
		d, err := device.Open(0)
		require.NoError(t, err)
		asked := 0
		seconds, err := d.Elapsed(func() { asked++ })
		if message == "" {
			assert.NoError(t, err)
			assert.Equal(t, 1, asked)
			assert.Equal(t, false, seconds < 0)
		} else {
			assert.EqualError(t, err, message)
		}
		_ = d.Close()
		require.NoError(t, device.CloseCards())
	}
}

// TestBeside: copies wait for kernels, kernels for copies, and the host for both. A failure is returned.
func TestBeside(t *testing.T) {
	const invalid = ": CUDA_ERROR_INVALID_VALUE: invalid argument"
	const launched = " (launched last: fill_float32; WEFT_DEVICE_SYNC=1 finds the kernel)"
	for fail, message := range map[string]string{
		"":                         "",
		"cuStreamCreate 2 1":       "opening a queue of copies" + invalid,
		"cuStreamCreate 4 1":       "", // they are opened once
		"cuEventCreate 7 1":        "opening a queue of copies" + invalid,
		"cuMemHostAlloc 1 1":       "allocating 768 bytes of the host's memory" + invalid,
		"cuEventRecord 1 1":        "marking a queue" + invalid + launched,
		"cuStreamWaitEvent 1 1":    "having a queue wait" + invalid + launched,
		"cuStreamWaitEvent 4 1":    "having a queue wait" + invalid + launched,
		"cuMemcpyDtoHAsync_v2 1 1": "copying beside kernels" + invalid + launched,
		"cuMemcpyHtoDAsync_v2 1 1": "copying beside kernels" + invalid + launched,
		"cuEventSynchronize 1 1":   "waiting for a copy" + invalid + launched,
		"cuMemFreeHost 1 1":        "closing the queues of copies" + invalid,
		"cuEventDestroy_v2 9 1":    "closing the queues of copies" + invalid,
		"cuStreamDestroy_v2 1 1":   "closing the queues of copies" + invalid,
	} {
		t.Setenv("WEFT_CUDA", library(t))
		t.Setenv("ON_CPU_FAIL", fail)
		down, there, err := overlapCopies()
		err = cmp.Or(err, device.CloseCards())
		if message != "" {
			assert.EqualError(t, err, "cuda:0: "+message)
			continue
		}
		assert.NoError(t, err)
		assert.Equal(t, bytes.Repeat([]byte{4, 3, 2, 1}, 64), down[:256])
		assert.Equal(t, there, down[256:])
		assert.Equal(t, bytes.Repeat([]byte{9}, 256), there)
	}
}

// overlapCopies launches a kernel that writes, and copies up beside it. It then copies all that down, and
// other bytes up in its place. It returns the bytes of the host and of the device. A wait after the end
// fails.
func overlapCopies() (down, there []byte, err error) {
	d, err := device.Open(0)
	if err != nil {
		return nil, nil, err
	}
	kernels, mark := uint64(0), uint64(0)
	defer func() {
		if err = cmp.Or(err, d.Close()); err == nil && d.Wait(mark) == nil {
			err = errors.New("a closed device is waited for")
		}
	}()
	pinned, err := d.Pinned(768)
	if err != nil {
		return nil, nil, err
	}
	copy(pinned[512:], bytes.Repeat([]byte{9}, 256))
	p, err := d.Alloc(512)
	args, there := fillArgs{p: p, bits: 0x01020304, last: 64}, make([]byte, 256)
	for _, f := range []func() error{
		func() error {
			return d.Launch("fill_float32", 1, 64, unsafe.Pointer(&args), int(unsafe.Sizeof(args)))
		},
		func() (err error) { kernels, err = d.Mark(); return err },
		func() (err error) { mark, err = d.Up(p+256, pinned[512:], 0); return err },
		func() (err error) { mark, err = d.Down(pinned[:512], p, kernels, mark); return err },
		func() error { return d.Wait(mark) },
		func() (err error) { mark, err = d.Up(p, pinned[512:], mark); return err },
		func() error { return d.After(mark) },
		func() error { return d.ToHost(there, p) },
		func() error { return d.Wait(mark) },
	} {
		if err == nil {
			err = f()
		}
	}
	return bytes.Clone(pinned[:512]), there, err
}
