import HTTP
import Platform
import Security
import Testing

@testable import MartletServer

@Suite struct StaticFileTests {
    private let page = StaticFile(Array(repeating: 0x61, count: 5000), name: "a.HTML", tag: "t", modified: 784_111_777)

    private func ask(_ file: StaticFile, _ fields: HTTPFields = [:], _ method: HTTPMethod = .get) throws -> HTTPResponse {
        file.answer(to: try #require(HTTPRequest(method, "/a", fields: fields)))
    }

    @Test func `it is compressed for those who like it, under a tag of its own`() throws {
        let plain = try ask(page)
        let small = try ask(page, ["Accept-Encoding": "gzip"])
        #expect(plain.bytes?.count == 5000 && plain.fields["ETag"] == "\"t\"" && plain.fields["Content-Encoding"] == nil)
        #expect(small.fields["Content-Encoding"] == "gzip" && small.fields["ETag"] == "\"t-gzip\"")
        #expect(try #require(small.bytes).prefix(3) == [0x1F, 0x8B, 8] && (small.bytes?.count ?? 0) < 100)
        #expect(plain.fields["Vary"] == "Accept-Encoding" && small.fields["Vary"] == "Accept-Encoding")
        #expect(small.fields["Content-Type"] == "text/html; charset=utf-8")
    }

    @Test func `what does not become smaller, or is small, is sent as it is`() throws {
        for file in [
            StaticFile(Array("abc".utf8), name: "a.txt", tag: "t"),
            StaticFile([UInt8](repeating: 0, count: 5000), name: "a.png", tag: "t"),
        ] {
            #expect(try ask(file, ["Accept-Encoding": "gzip"]).fields["Content-Encoding"] == nil)
            #expect(try ask(file).fields["Vary"] == nil)
        }
    }

    @Test func `who has it already is told so, with the tag of what it would get`() throws {
        #expect(try ask(page, ["If-None-Match": "\"t\""]).status == .notModified)
        #expect(try ask(page, ["If-None-Match": "\"t\"", "Accept-Encoding": "gzip"]).status == .ok)
        #expect(try ask(page, ["If-None-Match": "\"t-gzip\"", "Accept-Encoding": "gzip"], .head).status == .notModified)
        #expect(try ask(page, ["If-Modified-Since": "Sun, 06 Nov 1994 08:49:37 GMT"]).status == .notModified)
    }

    @Test func `a directory gives its files, and nothing by dots, links or hidden names`() throws {
        let place = try TemporaryDirectory()
        try FileReplacement.write(Array("index".utf8), to: "\(place.path)/index.html")
        try FileReplacement.write(Array("hidden".utf8), to: "\(place.path)/.hidden")
        let directory = FileDirectory(path: place.path)
        func status(_ path: String) throws -> Int { directory.answer(to: try #require(HTTPRequest(.get, path))).status.rawValue }
        #expect(try status("/") == 200 && status("/index.html") == 200)
        for path in [
            "/.hidden", "/../", "/./index.html", "//index.html", "/index.html/", "/missing", "/%2E%2E/x", "/..%2Findex.html",
        ] {
            #expect(try status(path) == 404, "\(path)")
        }
    }
}
