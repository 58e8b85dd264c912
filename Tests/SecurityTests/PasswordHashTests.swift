import Testing

@testable import Security

@Suite struct PasswordHashTests {
    /// Made by mosquitto_passwd 2.0.11, and the last by the reference implementation of Argon2.
    private static let known: [(text: String, password: String)] = [
        (
            "$6$p3p4d3T1PvVH3n7H$83UVNRNu8L4zzZEpIute6+Y2f+CGVR9G2o6ptMTqzzov+0codUBf1bhoBtmIjZOdLBZpKcH6jkXpJqSclo6dnQ==",
            "secret-sha512"
        ),
        (
            "$7$101$obnpgISfEzrEVY86$mDCjSRZ4U/AQZ9QJdfUvAG0LBFIO78aQImD/N1FoDWwY+bXKwEzhw3teo1YeDpIWMryb8KrXgfq+8YcRB5CDPg==",
            "secret-sha512-pbkdf2"
        ),
        ("$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc", "password"),
    ]

    /// Made by glibc's crypt, but for the second, which is the reference implementation's.
    private static let bcrypt: [(text: String, password: String)] = [
        ("$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW", "secret"),
        ("$2a$05$CCCCCCCCCCCCCCCCCCCCC.7uG0VCzI2bS7j6ymqJi9CdcdxiRTWNy", ""),
        ("$2y$04$abcdefghijklmnopqrstuubzadhGtS2zEF.gu0yd0opP6cVzb.e0i", String(repeating: "x", count: 72)),
        ("$2y$04$abcdefghijklmnopqrstuubzadhGtS2zEF.gu0yd0opP6cVzb.e0i", String(repeating: "x", count: 90)),
        ("$2y$04$abcdefghijklmnopqrstuu.gc7UY/21CSNJGJg21jJzx9QiOpJ9bO", String(repeating: "x", count: 71)),
        ("$2y$04$abcdefghijklmnopqrstuuc1pqO32Jjm3MjkBXEuJk7AAzEdrKrQ.", "ä"),
    ]

    @Test(arguments: bcrypt) func `bcrypt's hashes match their password and no other`(text: String, password: String) throws {
        let hash = try PasswordHash(text)
        #expect(hash.matches(Array(password.utf8)) == true)
        #expect(hash.matches(Array(("y" + password).utf8)) == false)
        #expect(hash.text.dropFirst(4) == text.dropFirst(4))
    }

    @Test(arguments: [
        "$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIr",
        "$2b$03$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW",
        "$2b$4$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrWa",
        "$2b$17$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW",
        "$2x$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW",
        "$2b$04$abcdefghijklmnopqrstu=2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW",
    ])
    func `what bcrypt has not made, or costs too much, is refused`(text: String) {
        #expect(throws: PasswordHash.Complaint.self) { try PasswordHash(text) }
    }

    private static let recipes: [PasswordRecipe] = [
        .sha512, .pbkdf2(iterations: 101), .pbkdf2(iterations: 1), .argon2id(Argon2.Cost(memoryKiB: 64, passes: 1, lanes: 1)),
        .argon2id(Argon2.Cost(memoryKiB: 64, passes: 2, lanes: 4)),
    ]

    @Test func `hashes that others made match their password and no other, and are written as they were read`() throws {
        for (text, password) in Self.known {
            let hash = try PasswordHash(text)
            #expect(hash.matches(Array(password.utf8)) == true)
            for other in ["", password + "x", String(password.dropLast()), password.uppercased()] {
                #expect(hash.matches(Array(other.utf8)) == false)
            }
            #expect(hash.text == text)
        }
    }

    @Test(arguments: recipes)
    func `a new hash matches its password, also an empty one and one of any bytes`(recipe: PasswordRecipe) throws {
        for password in [[], [0], Array("pässword".utf8), (0...255).map { UInt8($0) }] as [[UInt8]] {
            let hash = try #require(recipe.hash(of: password))
            #expect(try PasswordHash(hash.text) == hash)
            #expect(hash.recipe == recipe)
            #expect(hash.matches(password) == true)
            #expect(hash.matches(password + [1]) == false)
        }
        #expect(recipe.hash(of: [1]) != recipe.hash(of: [1]), "each has a salt of its own")
        #expect(recipe.impossibleHash().recipe == recipe)
        #expect(recipe.impossibleHash().matches([]) == false)
    }

    @Test(arguments: [
        "", "secret", "$", "$$", "$5$a$b", "$6$", "$6$AAAA", "$6$AAAA$AAAA", "$6$!$AAAA", "$7$AAAA$AAAA", "$7$0$AAAA$AAAA",
        "$7$-1$AAAA$AAAA",
        "$7$99999999999999999999$AAAA$AAAA", "$7$20000000$AAAA$AAAA", "$argon2i$v=19$m=64,t=1,p=1$c29tZXNhbHQ$AAAA",
        "$argon2id$v=16$m=64,t=1,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        "$argon2id$v=19$m=64,t=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        "$argon2id$v=19$m=64,t=1,t=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        "$argon2id$v=19$m=4294967295,t=1,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        "$argon2id$v=19$m=7,t=1,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        "$argon2id$v=19$m=64,t=0,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        "$argon2id$v=19$m=64,t=1,p=1$c29t$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
        "$argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHQ$AAAA",
    ])
    func `what is no hash is refused`(text: String) {
        #expect(throws: PasswordHash.Complaint.self) { try PasswordHash(text) }
    }
}
