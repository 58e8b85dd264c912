import Testing

@testable import MartletClient

/// The example of RFC 7677, section 3.
@Suite struct ScramTests {
    private let serverFirst = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    private let clientFinal =
        "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    private let serverFinal = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="

    private func exchange() -> ScramExchange {
        ScramExchange(user: "user", password: "pencil", nonce: "rOprNGfwEbeRWgbNEkqO")
    }

    @Test func `the example of the standard comes out as it says`() throws {
        var exchange = exchange()
        #expect(try exchange.begin() == Array("n,,n=user,r=rOprNGfwEbeRWgbNEkqO".utf8))
        #expect(try exchange.answer(Array(serverFirst.utf8)) == Array(clientFinal.utf8))
        try exchange.finish(Array(serverFinal.utf8))
    }

    @Test(arguments: [
        "", "r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "r=other%hvYDpWUa2RaT,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        "r=rOprNGfwEbeRWgbNEkqO%hv,s=,i=4096", "r=rOprNGfwEbeRWgbNEkqO%hv,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1",
        "r=rOprNGfwEbeRWgbNEkqO%hv,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=99999999",
    ])
    func `a server that asks wrongly gets no proof`(challenge: String) throws {
        var exchange = exchange()
        _ = try exchange.begin()
        #expect(throws: ClientError.self) { try exchange.answer(Array(challenge.utf8)) }
    }

    @Test(arguments: [nil, "", "v=AAAA", "e=other-error"])
    func `a server that does not know the password is not trusted`(final: String?) throws {
        var exchange = exchange()
        _ = try exchange.begin()
        _ = try exchange.answer(Array(serverFirst.utf8))
        #expect(throws: ClientError.self) { try exchange.finish(final.map { Array($0.utf8) }) }
    }
}
