import Testing

@testable import Platform

/// The example of RFC 7677, section 3.
@Suite struct ScramTests {
    private let serverFirst = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    private let clientFinal =
        "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="

    private func exchange(user: String = "user") -> ScramClientExchange {
        ScramClientExchange(user: Array(user.utf8), password: Array("pencil".utf8), nonce: "rOprNGfwEbeRWgbNEkqO")
    }

    @Test func `the proof is the one of the standard, and the server's is looked at`() throws {
        var exchange = exchange()
        let first = exchange.first
        #expect(first == Array("n,,n=user,r=rOprNGfwEbeRWgbNEkqO".utf8))
        // Before there was a challenge, after it by who does not know the password, and by who does.
        let early = exchange.finish([])
        let final = try exchange.answer(to: Array(serverFirst.utf8))
        let stranger = exchange.finish(Array("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5=".utf8))
        let isProvedByStranger = exchange.isProved
        let server = exchange.finish(Array("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=".utf8))
        #expect(final == Array(clientFinal.utf8))
        #expect(!early && !stranger && !isProvedByStranger)
        #expect(server && exchange.isProved)
        #expect(throws: ScramClientExchange.Failure.self, "once") { try exchange.answer(to: Array(serverFirst.utf8)) }
    }

    @Test func `commas and equals signs of a name are escaped`() {
        #expect(exchange(user: "a=b,c").first == Array("n,,n=a=3Db=2Cc,r=rOprNGfwEbeRWgbNEkqO".utf8))
    }

    @Test func `no two runs say the same nonce`() {
        let first = (0..<2).map { _ in ScramClientExchange(user: [], password: []).first }
        #expect(first[0] != first[1] && first[0].count == 8 + 24)
    }

    @Test(arguments: [
        "r=other,s=AAAA,i=4096", "r=nonce,s=AAAA,i=4096", "r=nonceX,s=,i=4096", "r=nonceX,s=A,i=4096", "r=nonceX,s=AAAA,i=0",
        "r=nonceX,s=AAAA,i=4095", "r=nonceX,s=AAAA,i=1000001", "r=nonceX,s=AAAA,i=2000000000", "m=x,r=nonceX,s=AAAA,i=4096",
        "e=no", "",
    ])
    func `a server's first word that is none is not answered`(first: String) {
        var exchange = ScramClientExchange(user: [], password: Array("p".utf8), nonce: "nonce")
        #expect(throws: ScramClientExchange.Failure.self) { try exchange.answer(to: Array(first.utf8)) }
    }

    @Test func `who wants fewer iterations says so`() throws {
        var exchange = ScramClientExchange(user: [], password: Array("p".utf8), iterationsMin: 1, nonce: "nonce")
        let final = try exchange.answer(to: Array("r=nonceX,s=AAAA,i=1".utf8))
        #expect(final.starts(with: Array("c=biws,r=nonceX,p=".utf8)))
    }
}
