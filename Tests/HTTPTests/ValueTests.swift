import Testing

@testable import HTTP

@Suite struct ValueTests {
    @Test(
        arguments: [
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"), (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"), (4_102_444_799, "Thu, 31 Dec 2099 23:59:59 GMT"),
            (-1, "Wed, 31 Dec 1969 23:59:59 GMT"),
        ] as [(Int64, String)])
    func `a time is written and read as RFC 9110 says`(seconds: Int64, text: String) {
        #expect(HTTPDate.text(seconds) == text)
        #expect(HTTPDate.parse(text) == seconds)
    }

    @Test func `every day of four centuries is read as it is written`() {
        for day in stride(from: Int64(0), to: 146_097, by: 1) {
            let seconds = day * 86_400 + day % 86_400
            #expect(HTTPDate.parse(HTTPDate.text(seconds)) == seconds)
        }
    }

    @Test(arguments: [
        "", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994", "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun, 06 nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 UTC", "Sun, 06 Nov 1994 24:00:00 GMT", "Sun, 06 Nov 1994 08:49 GMT",
        "Sun, 06 Nov 1994 +8:49:37 GMT",
        "Sun, 06 Nov 94 08:49:37 GMT", "Sun, 00 Nov 1994 08:49:37 GMT",
    ])
    func `what is no such time is none`(text: String) { #expect(HTTPDate.parse(text) == nil) }

    @Test func `a tag is found in a list, weak or not, and a star names all`() {
        let tag = EntityTag("a,b")
        for list in ["\"a,b\"", "\"x\", \"a,b\"", "W/\"a,b\"", "*", " \"x\" ,W/\"a,b\" "] { #expect(tag.isNamed(in: list)) }
        for list in ["", "a,b", "\"a\"", "\"b\"", "w/\"a,b\"", "\"A,b\""] { #expect(!tag.isNamed(in: list)) }
        #expect(tag.text == "\"a,b\"")
        #expect(EntityTag("x", isWeak: true).text == "W/\"x\"")
    }

    @Test func `a peer has what it asks for by tag, and by time only when it names no tag`() throws {
        func has(_ fields: HTTPFields, _ method: HTTPMethod = .get) throws -> Bool {
            try #require(HTTPRequest(method, "/", fields: fields)).hasCurrent(EntityTag("a"), modified: 784_111_777)
        }
        #expect(try has(["If-None-Match": "\"a\""]))
        #expect(try has(["If-None-Match": "\"a\""], .head))
        #expect(try !has(["If-None-Match": "\"a\""], .post))
        #expect(try has(["If-Modified-Since": "Sun, 06 Nov 1994 08:49:37 GMT"]))
        #expect(try !has(["If-Modified-Since": "Sun, 06 Nov 1994 08:49:36 GMT"]))
        #expect(try !has(["If-Modified-Since": "yesterday"]))
        #expect(try !has(["If-None-Match": "\"b\"", "If-Modified-Since": "Sun, 06 Nov 1994 08:49:37 GMT"]))
        #expect(try !has([:]))
    }

    @Test(arguments: [
        ("gzip", 1000), ("deflate, gzip;q=0.5", 500), ("*", 1000), ("*;q=0.1", 100), ("gzip;q=0", 0), ("identity", 0), ("", 0),
        ("GZIP", 1000), ("gzip; q=1.0", 1000), ("gzip;q=0.123", 123), ("gzip;q=0.0, *", 0), ("x-gzip", 0), ("gzip;q=2", 1000),
    ])
    func `an encoding has the weight that its peer gives it`(value: String, weight: Int) {
        #expect(HTTPPreference(value).weight(ofCoding: "gzip") == weight)
    }

    @Test func `a type has the weight of the range that fits best`() {
        let scrape = HTTPPreference("application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1")
        #expect(scrape.weight(ofType: "application/openmetrics-text") == 750)
        #expect(scrape.weight(ofType: "text/plain") == 500)
        #expect(scrape.weight(ofType: "image/png") == 100)
        #expect(HTTPPreference("text/*;q=0.3, text/html").weight(ofType: "text/plain") == 300)
        #expect(HTTPPreference("text/html").weight(ofType: "text/plain") == 0)
    }

    @Test func `an event is written line by line`() {
        func text(_ event: ServerSentEvent) -> String { String(decoding: event.bytes, as: UTF8.self) }
        #expect(text(ServerSentEvent(data: "")) == "data: \n\n")
        #expect(
            text(ServerSentEvent(id: "4", event: "stats", data: "a\r\nb\nc\rd"))
                == "id: 4\nevent: stats\ndata: a\ndata: b\ndata: c\ndata: d\n\n")
        #expect(text(ServerSentEvent(id: "4\ndata: x", event: "a\rb", data: "c")) == "id: 4 data: x\nevent: a b\ndata: c\n\n")
        #expect(ServerSentEvent.comment("a\nb") == Array(": a b\n\n".utf8))
    }

    @Test func `credentials are read, and nothing else is`() {
        #expect(BasicCredentials("Basic dTpw") == BasicCredentials("basic  dTpw"))
        #expect(BasicCredentials("Basic dTpw")?.username == "u")
        #expect(BasicCredentials("Basic dTpw")?.password == Array("p".utf8))
        #expect(BasicCredentials("Basic dTpwOnE=")?.password == Array("p:q".utf8))
        for text in ["", "Basic", "Basic ", "Basic dQ==", "Basic dTp", "Bearer dTpw", "dTpw", "Basic /zpw"] {
            #expect(BasicCredentials(text) == nil)
        }
        #expect(HTTPRequest(.get, "/", fields: ["Authorization": "bearer  abc "])?.bearerToken == "abc")
        #expect(HTTPRequest(.get, "/", fields: ["Authorization": "Bearer"])?.bearerToken == nil)
    }

    @Test func `every text comes back from its percent-encoding`() {
        for text in ["", "a/b", "ä€😀", "100%", "a b+c", "\n\u{7F}"] {
            #expect(PercentCoding.decode(PercentCoding.encode(text).utf8) == text)
        }
        #expect(PercentCoding.encode("a/b c") == "a%2Fb%20c")
    }

    @Test func `no field can bring another`() {
        var response = HTTPResponse(.found, fields: ["Location": "/a\r\nSet-Cookie: x=y"])
        response.fields.append("X", "a\0b")
        let head = String(decoding: response.head(endsConnection: false), as: UTF8.self)
        #expect(head == "HTTP/1.1 302 Found\r\nLocation: /a  Set-Cookie: x=y\r\nX: a b\r\nContent-Length: 0\r\n\r\n")
    }

    @Test func `the head of an answer is read`() throws {
        let head = try #require(HTTPResponseHead(Array("HTTP/1.1 404 Not Found\r\nA: b\r\nA: c\r\n\r\n".utf8)))
        #expect(head.status == .notFound && head.reason == "Not Found" && head.fields["a"] == "b, c")
        #expect(HTTPResponseHead(Array("HTTP/1.1 200\r\n\r\n".utf8))?.status == .ok)
        for text in ["", "HTTP/2 200 OK", "HTTP/1.1 2x0 OK", "HTTP/1.1", "HTTP/1.1 200 OK\r\nA : b"] {
            #expect(HTTPResponseHead(Array(text.utf8)) == nil)
        }
    }
}
