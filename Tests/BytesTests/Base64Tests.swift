import Bytes
import Testing

@Suite struct Base64Tests {
    /// RFC 4648, section 10.
    private static let vectors: [(plain: String, encoded: String)] = [
        ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="),
        ("foobar", "Zm9vYmFy"),
    ]

    @Test func `the vectors of RFC 4648 go both ways`() {
        for (plain, encoded) in Self.vectors {
            #expect(Base64.encode(Array(plain.utf8)) == encoded)
            #expect(Base64.decode(encoded) == Array(plain.utf8))
            let bare = encoded.filter { $0 != "=" }
            #expect(Base64.encode(Array(plain.utf8), padding: .none) == bare)
            #expect(Base64.decode(bare, padding: .none) == Array(plain.utf8))
        }
    }

    @Test func `every byte value at every place comes back`() {
        for count in 1...7 {
            for value in UInt8.min...UInt8.max {
                let bytes = [UInt8](repeating: value, count: count)
                #expect(Base64.decode(Base64.encode(bytes)) == bytes)
                #expect(Base64.decode(Base64.encode(bytes, padding: .none), padding: .none) == bytes)
            }
        }
    }

    @Test(arguments: [
        "Z", "Zg", "Zg=", "Zg===", "Zh==", "Zm9=", "Zm9v\n", "Zm 9v", "Zm9v=", "=", "====", "Zg==Zg==", "Zm9-", "Zm9_",
    ])
    func `what is not canonical is refused`(text: String) {
        #expect(Base64.decode(text) == nil)
    }
}
