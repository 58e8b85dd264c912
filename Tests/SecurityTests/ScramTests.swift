import BrokerCore
import Bytes
import MQTTCodec
import Platform
import Testing

@testable import Security

@Suite struct ScramTests {
    /// The example of RFC 7677, section 3.
    private let clientFirst = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    private let serverNonce = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    private let serverFirst = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    private let clientFinal =
        "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    private let serverFinal = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="

    private let credentials: ScramCredentials
    private let users: ScramFile

    init() throws {
        let salt = try #require(Base64.decode("W22ZaJ0SNY7soEsUEjb6gQ=="))
        credentials = ScramCredentials(password: Array("pencil".utf8), iterations: 4096, salt: salt)
        users = try ScramFile(Array("user:\(credentials.text)\nother:\(credentials.text)\n".utf8), file: "scram")
    }

    @Test func `the example of RFC 7677 runs word by word`() {
        let exchange = ScramExchange(users: users, nonce: serverNonce)
        #expect(exchange.begin(data: Array(clientFirst.utf8)).challenge == serverFirst)
        let outcome = exchange.proceed(data: Array(clientFinal.utf8))
        #expect(outcome.acceptedUser == "user")
        #expect(outcome.acceptedData == serverFinal)
        #expect(exchange.proceed(data: Array(clientFinal.utf8)).refusal == .protocolError, "the proof holds once")
    }

    @Test func `a client that sends nothing with CONNECT is asked first`() {
        let exchange = ScramExchange(users: users, nonce: serverNonce)
        #expect(exchange.begin(data: nil).challenge == "")
        #expect(exchange.proceed(data: Array(clientFirst.utf8)).challenge == serverFirst)
        #expect(exchange.proceed(data: Array(clientFinal.utf8)).acceptedUser == "user")
    }

    @Test func `a client of our own gets in with the right password alone, whatever its name`() throws {
        for name in ["anna", "a,b=c", "ä ö", "="] {
            let line = ScramCredentials(password: Array("right".utf8), iterations: 5).text
            let users = try ScramFile(Array("\(name):\(line)".utf8), file: "scram")
            for (password, header) in [("right", "n,,"), ("right", "y,,"), ("wrong", "n,,")] {
                let outcome = ScramClient(user: name, password: password, header: header).run(
                    with: ScramExchange(users: users, nonce: "abc"))
                #expect(outcome.acceptedUser == (password == "right" ? name : nil))
                #expect(outcome.refusal == (password == "right" ? nil : .notAuthorized))
            }
        }
    }

    @Test(arguments: [
        ("IX", ["IX", "I\u{AD}X", "\u{2168}"]), ("I\u{AD}X", ["IX", "\u{2168}"]), ("\u{AA}", ["a"]), ("ä", ["a\u{308}"]),
    ])
    func `names that SASLprep makes one are one user's`(_ kept: String, _ names: [String]) throws {
        let users = try ScramFile(Array("\(kept):\(credentials.text)".utf8), file: "scram")
        let prepared = try #require(SASLprep.prepare(Array(kept.utf8), for: .storing))
        for name in names {
            let outcome = ScramClient(user: name, password: "pencil").run(with: ScramExchange(users: users, nonce: "abc"))
            #expect(outcome.acceptedUser == String(decoding: prepared, as: UTF8.self))
        }
    }

    @Test func `a name may come in one form and be acted for in another`() throws {
        let client = ScramClient(user: "us\u{AD}er", password: "pencil", header: "n,a=user,")
        #expect(client.run(with: ScramExchange(users: users, nonce: "abc")).acceptedUser == "user")
    }

    @Test(arguments: ["\u{7}", "\u{627}1", "\u{AD}", "a\u{85}"])
    func `a name that SASLprep forbids is nobody's`(_ name: String) throws {
        let exchange = ScramExchange(users: users, nonce: serverNonce)
        #expect(exchange.begin(data: Array("n,,n=\(name),r=rOprNGfwEbeRWgbNEkqO".utf8)).refusal == .protocolError)
        let error = try #require(throws: SecurityFileError.self) {
            try ScramFile(Array("\(name):\(credentials.text)".utf8), file: "scram")
        }
        #expect(error.problems.map(\.line) == [1])
    }

    @Test func `two forms of one name are twice the same`() throws {
        let error = try #require(throws: SecurityFileError.self) {
            try ScramFile(Array("IX:\(credentials.text)\nI\u{AD}X:\(credentials.text)".utf8), file: "scram")
        }
        #expect(error.problems.map(\.line) == [2])
    }

    @Test func `a password is kept as SASLprep has it`() throws {
        let entry = try PasswordScheme.scramSHA256.entry(for: Array("pen\u{AD}cil \u{2168}".utf8))
        let users = try ScramFile(Array("user:\(entry)".utf8), file: "scram")
        let client = ScramClient(user: "user", password: "pencil IX")
        #expect(client.run(with: ScramExchange(users: users, nonce: "abc")).acceptedUser == "user")
        #expect(throws: PasswordScheme.Refusal.forbiddenCharacters) {
            try PasswordScheme.scramSHA256.entry(for: Array("pen\u{7}cil".utf8))
        }
        #expect(throws: Never.self) { try PasswordScheme.sha512.entry(for: Array("pen\u{7}cil".utf8)) }
    }

    @Test func `the verifier that the client gets proves that we know the password`() {
        let client = ScramClient(user: "user", password: "pencil")
        let outcome = client.run(with: ScramExchange(users: users, nonce: "abc"))
        #expect(outcome.acceptedData != nil && outcome.acceptedData == client.expectedVerifier)
    }

    @Test func `users that are not there are asked for a proof like others, the same each time`() throws {
        func challenge(_ users: ScramFile, _ user: String) -> String? {
            ScramExchange(users: users, nonce: "N").begin(data: Array("n,,n=\(user),r=clientnonce".utf8)).challenge
        }
        let nobody = try #require(challenge(users, "nobody"))
        #expect(nobody == challenge(users, "nobody"))
        #expect(nobody != challenge(users, "nobody2"))
        #expect(nobody.hasSuffix(",i=4096") && nobody.count == challenge(users, "user")?.count)
        let reread = try ScramFile(Array("user:\(credentials.text)\nother:\(credentials.text)\n".utf8), file: "scram")
        #expect(nobody == challenge(reread, "nobody"), "a restart changes nothing")
        let client = ScramClient(user: "nobody", password: "pencil")
        #expect(client.run(with: ScramExchange(users: users, nonce: "abc")).refusal == .notAuthorized)
    }

    @Test(arguments: [
        "", "n", "n,,", "n,,n=user", "n,,r=rOprNGfwEbeRWgbNEkqO", "p=tls-unique,,n=user,r=rOprNGfwEbeRWgbNEkqO",
        "x,,n=user,r=rOprNGfwEbeRWgbNEkqO", "n,b=user,n=user,r=rOprNGfwEbeRWgbNEkqO", "n,,n=,r=rOprNGfwEbeRWgbNEkqO",
        "n,,n=us=er,r=rOprNGfwEbeRWgbNEkqO", "n,,n=us=2,r=rOprNGfwEbeRWgbNEkqO", "n,,m=x,n=user,r=rOprNGfwEbeRWgbNEkqO",
        "n,,n=user,r=short",
        "n,,n=user,r=with space in it", "n,,n=user,r=rOprNGfwEbeRWgbNEkqO,m=x", "n,,n=user,r=rOprNGfwEbeRWgbNEkqO,",
    ])
    func `a first message that is none is refused`(text: String) {
        let exchange = ScramExchange(users: users, nonce: serverNonce)
        #expect(exchange.begin(data: Array(text.utf8)).refusal == .protocolError)
        #expect(exchange.proceed(data: Array(clientFirst.utf8)).refusal == .protocolError, "there is no second try")
    }

    @Test func `acting for somebody else is refused, and for oneself is not`() {
        let other = ScramExchange(users: users, nonce: serverNonce)
        #expect(other.begin(data: Array("n,a=other,n=user,r=rOprNGfwEbeRWgbNEkqO".utf8)).refusal == .notAuthorized)
        let same = ScramClient(user: "user", password: "pencil", header: "n,a=user,")
        #expect(same.run(with: ScramExchange(users: users, nonce: "abc")).acceptedUser == "user")
    }

    @Test func `any change to the final message is refused`() {
        for index in clientFinal.utf8.indices {
            var bytes = Array(clientFinal.utf8)
            bytes[clientFinal.utf8.distance(from: clientFinal.utf8.startIndex, to: index)] ^= 1
            let exchange = ScramExchange(users: users, nonce: serverNonce)
            _ = exchange.begin(data: Array(clientFirst.utf8))
            #expect(exchange.proceed(data: bytes).refusal != nil)
        }
        for count in 0..<clientFinal.utf8.count {
            let exchange = ScramExchange(users: users, nonce: serverNonce)
            _ = exchange.begin(data: Array(clientFirst.utf8))
            #expect(exchange.proceed(data: Array(clientFinal.utf8.prefix(count))).refusal != nil)
        }
        let exchange = ScramExchange(users: users, nonce: serverNonce)
        _ = exchange.begin(data: Array(clientFirst.utf8))
        #expect(exchange.proceed(data: nil).refusal == .protocolError)
    }

    @Test func `each exchange has a nonce of its own`() {
        let method = ScramSHA256(users: users) { Salt.make(count: 18) }
        #expect(method.method == "SCRAM-SHA-256")
        let challenges = (0..<3).compactMap { _ in method.makeExchange().begin(data: Array(clientFirst.utf8)).challenge }
        #expect(Set(challenges).count == 3)
    }

    @Test func `entries are PostgreSQL's`() throws {
        let text =
            "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:"
            + "wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
        #expect(ScramCredentials(text)?.text == text)
        #expect(credentials.text == text)
        for broken in [
            "", "SCRAM-SHA-256$", text + "x", text.replacing("4096", with: "0"), text.replacing(":", with: ";"),
            "SCRAM-SHA-1" + text,
        ] {
            #expect(ScramCredentials(broken) == nil)
        }
    }

    @Test func `all that is wrong with a file is told`() throws {
        let error = try #require(throws: SecurityFileError.self) {
            try ScramFile(Array("a:\(credentials.text)\na:\(credentials.text)\n:x\nb:$7$1$a$b".utf8), file: "scram")
        }
        #expect(error.problems.map(\.line) == [2, 3, 4])
    }
}
