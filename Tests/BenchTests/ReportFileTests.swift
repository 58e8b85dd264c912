import Glibc
import Testing

@testable import Bench

@Suite struct ReportFileTests {
    /// A directory of the test's own.
    private final class Place {
        let path: String
        init() {
            var template = Array("/tmp/report-XXXXXX".utf8CString)
            path = template.withUnsafeMutableBufferPointer { bytes in
                guard let start = bytes.baseAddress, let made = mkdtemp(start) else { return "" }
                return String(cString: made)
            }
        }
        var names: Set<String> {
            var names: Set<String> = []
            guard let directory = opendir(path) else { return names }
            defer { closedir(directory) }
            while let entry = readdir(directory) {
                let name = withUnsafePointer(to: &entry.pointee.d_name) { name in
                    name.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
                }
                if name != ".", name != ".." { names.insert(name) }
            }
            return names
        }
        func text(_ name: String) -> String? {
            guard let file = fopen("\(path)/\(name)", "r") else { return nil }
            defer { fclose(file) }
            var bytes = [UInt8](repeating: 0, count: 1000)
            let count = fread(&bytes, 1, bytes.count, file)
            return String(decoding: bytes[..<count], as: UTF8.self)
        }
        func put(_ text: String, _ name: String) {
            guard let file = fopen("\(path)/\(name)", "w") else { return }
            fputs(text, file)
            fclose(file)
        }
        deinit {
            for name in names { unlink("\(path)/\(name)") }
            rmdir(path)
        }
    }

    @Test func `a file that can be written is not there before it is written`() throws {
        let place = Place()
        let file = try ReportFile("\(place.path)/page.html")
        #expect(place.names.isEmpty)
        try file.write("text")
        #expect(place.names == ["page.html"] && place.text("page.html") == "text")
    }

    @Test func `a file that is there stays as it was until the new one is complete, and keeps its mode`() throws {
        let place = Place()
        place.put("old", "page.html")
        chmod("\(place.path)/page.html", 0o604)
        let file = try ReportFile("\(place.path)/page.html")
        #expect(place.text("page.html") == "old")
        try file.write("new")
        var status = stat()
        stat("\(place.path)/page.html", &status)
        #expect(place.text("page.html") == "new" && status.st_mode & 0o777 == 0o604 && place.names == ["page.html"])
    }

    @Test func `behind a symbolic link the file is written that it points to`() throws {
        let place = Place()
        place.put("old", "real.html")
        symlink("real.html", "\(place.path)/page.html")
        try ReportFile("\(place.path)/page.html").write("new")
        var status = stat()
        lstat("\(place.path)/page.html", &status)
        #expect(place.text("real.html") == "new" && status.st_mode & S_IFMT == S_IFLNK)
    }

    @Test(arguments: [
        ("", "names a directory; name a file in it."), ("/", "is a directory; name a file in it."),
        ("/nowhere/page.html", "no file can be written in PLACE/nowhere/: No such file or directory."),
        ("/pipe", "is no ordinary file."), ("/file/page.html", "no file can be written in PLACE/file/: Not a directory."),
    ])
    func `a file that cannot be written is told at once`(name: String, message: String) {
        let place = Place()
        mkfifo("\(place.path)/pipe", 0o600)
        place.put("", "file")
        let path = name.isEmpty ? "" : place.path + name
        let expected = "--html \(path): " + message.split(separator: "PLACE").joined(separator: place.path)
        #expect {
            try ReportFile(path)
        } throws: { error in
            "\(error)" == expected
        }
    }
}
