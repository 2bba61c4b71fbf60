package device

// #include <stdlib.h>
// #include "nvrtc.h"
import "C"

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"weft/internal/atomicfile"
	"weft/internal/cache"
	"weft/internal/refusal"
	"weft/kernel/native"
)

// The sources of the kernels. They include headers of kernel/native.
//
//go:embed kernels
var kernels embed.FS

// options are the compiler's options for kernels. A multiply and an add are fused only where the source says
// so.
var options = []string{"--std=c++17", "-default-device", "--fmad=false"}

// NVRTC has no headers of a C library.
const stdint = "typedef signed char int8_t; typedef unsigned char uint8_t; typedef short int16_t;" +
	"typedef unsigned short uint16_t; typedef int int32_t; typedef unsigned uint32_t;" +
	"typedef long long int64_t; typedef unsigned long long uint64_t;\n"

type source struct{ name, text string }

// sources returns the program, then the files that it includes, and a hash of all of them and the options.
var sources = sync.OnceValues(func() ([]source, []byte) {
	all := []source{{"stdint.h", stdint}}
	for folder, files := range map[string]fs.FS{"kernels": kernels, ".": native.Arguments} {
		entries, err := fs.ReadDir(files, folder)
		for _, entry := range entries {
			text, err2 := fs.ReadFile(files, filepath.Join(folder, entry.Name()))
			err = errors.Join(err, err2)
			all = append(all, source{entry.Name(), string(text)})
		}
		if err != nil {
			panic(err) // embedded files can be read
		}
	}
	slices.SortFunc(all, func(a, b source) int { return strings.Compare(a.name, b.name) })
	program := slices.IndexFunc(all, func(s source) bool { return s.name == "kernels.cu" })
	all[0], all[program] = all[program], all[0]
	hash := sha256.New()
	for _, s := range all {
		fmt.Fprintf(hash, "%s %d %s", s.name, len(s.text), s.text)
	}
	fmt.Fprint(hash, options)
	return all, hash.Sum(nil)
})

// CubinName returns the name of the file with these kernels for cards of a capability, for instance 90 for
// 9.0. The name has a hash of the kernels, so a program never loads the kernels of another version.
func CubinName(capability int) string {
	_, hash := sources()
	return fmt.Sprintf("sm_%d-%.6x.cubin", capability, hash)
}

// image returns the kernels' code for the card. It takes the first of these:
//
//   - a file CubinName in lib/weft/kernels beside the bin folder of the program, where weft's packages put
// it:

//     for this capability, or for an earlier one of the same major number;
//   - code that was compiled before, in the folder kernels of weft's cache folder (WEFT_CACHE);
//   - code that NVRTC compiles now, and that is kept there. NVRTC is searched for where WEFT_NVRTC says (the
// library

// or its folder), in $CUDA_HOME/lib64, where the loader looks, and in /usr/local/cuda/lib64.
func (c *card) image() ([]byte, error) {
	if c.driver.needs_no_code != 0 {
		return []byte{0}, nil
	}
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("the program's folder: %w", err)
	}
	packaged := filepath.Join(filepath.Dir(filepath.Dir(program)), "lib", "weft", "kernels")
	for minor := c.minor; minor >= 0; minor-- {
		code, err := os.ReadFile(filepath.Join(packaged, CubinName(10*c.major+minor)))
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return code, err
		}
	}
	library, version, err := findNVRTC(c.version / 1000)
	if err != nil {
		return nil, err
	}
	return kept(10*c.major+c.minor, library, version)
}

// Compiling is called before kernels are compiled, which takes 45 seconds, with a line that says so. end is
// called afterwards.
var Compiling = func(string) (end func()) { return func() {} }

// kept returns the kernels from the cache folder. Such a file begins with a hash of its content. A damaged
// file is written anew.
func kept(capability int, library, version string) ([]byte, error) {
	root := cache.Root()
	if root == "" {
		return nil, refusal.Errorf("no folder for compiled kernels: set WEFT_CACHE to one")
	}
	_, hash := sources()
	name := filepath.Join(root, "kernels", fmt.Sprintf("sm_%d-%.6x-nvrtc%s", capability, hash, version))
	content, err := os.ReadFile(name)
	if err == nil && len(content) > sha256.Size {
		sum, code := content[:sha256.Size], content[sha256.Size:]
		if right := sha256.Sum256(code); bytes.Equal(sum, right[:]) {
			return code, nil
		}
	}
	end := Compiling(fmt.Sprintf("compiling kernels for sm_%d, which is done once: %s keeps them",
		capability, filepath.Dir(name)))
	code, _, err := compile(capability, library, version, "--split-compile=0") // on all cores
	// NVRTC 12.0 lacks one of the options
	if errors.Is(err, errOption) {
		code, _, err = compile(capability, library, version)
	}
	end()
	if err != nil {
		return nil, err
	}
	err = os.MkdirAll(filepath.Dir(name), 0o777)
	if err == nil {
		err = atomicfile.Write(name, func(w io.Writer) error {
			sum := sha256.Sum256(code)
			_, err := w.Write(slices.Concat(sum[:], code))
			return err
		})
	}
	if err != nil {
		return nil, refusal.Errorf("%w: set WEFT_CACHE to a folder in which compiled kernels can be kept", err)
	}
	return code, nil
}

// Compile compiles the kernels for cards of a capability, with more options of NVRTC. It returns NVRTC's log.
func Compile(capability int, more ...string) (code []byte, log string, err error) {
	library, version, err := findNVRTC(0)
	if err != nil {
		return nil, "", err
	}
	return compile(capability, library, version, more...)
}

// findNVRTC returns the first NVRTC library that it finds, and its version. most is the largest major
// version, because a driver takes no code of newer ones; 0: any.
func findNVRTC(most int) (library, version string, err error) {
	var names, tooNew []string
	in := func(folder string) {
		found, _ := filepath.Glob(filepath.Join(folder, "libnvrtc.so.*")) // the pattern is right
		names = append(names, found...)
	}
	own := os.Getenv("WEFT_NVRTC")
	if info, err := os.Stat(own); own != "" && (err != nil || !info.IsDir()) {
		names = append(names, own)
	} else if own != "" {
		in(own)
	}
	if own == "" {
		if home := os.Getenv("CUDA_HOME"); home != "" {
			in(filepath.Join(home, "lib64"))
		}
		names = append(names, "libnvrtc.so.13", "libnvrtc.so.12")
		in("/usr/local/cuda/lib64")
	}
	for _, name := range names {
		file := C.CString(name)
		var major, minor C.int
		status := C.weft_nvrtc_version(file, &major, &minor)
		C.free(unsafe.Pointer(file))
		switch {
		case status != 0 || major < leastCUDA/1000:
		case most > 0 && int(major) > most:
			tooNew = append(tooNew, name)
		default:
			return name, fmt.Sprintf("%d.%d", major, minor), nil
		}
	}
	const wayOut = "`pip install nvidia-cuda-nvrtc-cu12` has one, whose folder WEFT_NVRTC may name; " +
		"or install weft's Python or Debian package, which has compiled kernels"
	switch {
	case tooNew != nil:
		return "", "", refusal.Errorf("%s: it compiles kernels for later drivers than this machine's, of CUDA %d: "+
			"install a later driver, or NVRTC %d (%s)", tooNew[0], most, most, wayOut)
	case own != "":
		return "", "", refusal.Errorf("WEFT_NVRTC: %s: no NVRTC %d or later there: %s",
			own, leastCUDA/1000, wayOut)
	default:
		return "", "", refusal.Errorf("no NVRTC, which compiles the kernels for this card: %s", wayOut)
	}
}

// errOption says that NVRTC does not know an option.
var errOption = errors.New("an option")

func compile(capability int, library, version string, more ...string) (code []byte, log string, err error) {
	all, _ := sources()
	cSources := make([]C.weft_source, len(all))
	var texts []unsafe.Pointer
	text := func(s string) *C.char {
		c := C.CString(s)
		texts = append(texts, unsafe.Pointer(c))
		return c
	}
	var compiled C.weft_compiled
	defer func() {
		for _, p := range append(texts, unsafe.Pointer(compiled.image), unsafe.Pointer(compiled.log)) {
			C.free(p)
		}
	}()
	for i, s := range all {
		cSources[i] = C.weft_source{name: text(s.name), text: text(s.text)}
	}
	var flags []*C.char
	card := fmt.Sprintf("--gpu-architecture=sm_%d", capability)
	for _, flag := range slices.Concat(options, more, []string{card}) {
		flags = append(flags, text(flag))
	}
	status := C.weft_nvrtc_compile(text(library), &cSources[0], C.int(len(cSources)),
		&flags[0], C.int(len(flags)), &compiled)
	if compiled.log != nil {
		log = strings.Trim(C.GoString(compiled.log), "\x00\n")
	}
	if status != 0 || compiled.image == nil {
		first, _, _ := strings.Cut(log, "\n")
		err := fmt.Errorf("%s (%s) compiles no kernels for sm_%d: status %d: %s", library, version, capability,
			status, first)
		const invalidOption = 5
		if status == invalidOption {
			err = fmt.Errorf("%w: %w", errOption, err)
		}
		return nil, log, err
	}
	return C.GoBytes(unsafe.Pointer(compiled.image), C.int(compiled.bytes)), log, nil
}
