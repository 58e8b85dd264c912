import JSON
import JSONReader
import Testing

@testable import JSONWebTokens

/// What tokens say, against what the operator wants.
@Suite struct TokenClaimsTests {
    // MARK: Form

    @Test(arguments: [
        ("", TokenRefusal.Kind.notAToken, "it is no JSON Web Token: these are three texts with dots between them"),
        ("secret", .notAToken, "it is no JSON Web Token: these are three texts with dots between them"),
        ("a.b", .notAToken, "it is no JSON Web Token: these are three texts with dots between them"),
        ("a.b.c.d", .notAToken, "it is no JSON Web Token: these are three texts with dots between them"),
        ("a.b.c.d.e", .malformed, "it is encrypted (JWE); only signed tokens are read"),
        ("a.b.c.d.e.f", .notAToken, "it is no JSON Web Token: these are three texts with dots between them"),
        ("e30=.e30.AA", .malformed, "it is not Base64 for URLs without padding"),
        ("e30.e3+.AA", .malformed, "it is not Base64 for URLs without padding"),
        ("e31.e30.AA", .malformed, "it is not Base64 for URLs without padding"),
        ("e30.e30.AA\n", .malformed, "it is not Base64 for URLs without padding"),
        ("e30.e30.AA", .malformed, "its header has no \"alg\""),
        ("W10.e30.AA", .malformed, "its header is no JSON object"),
        (".e30.AA", .malformed, "its header: line 1: '[' or '{' expected near end of file"),
    ]) func `what is no token is said in words`(text: String, kind: TokenRefusal.Kind, words: String) {
        let refusal = #expect(throws: TokenRefusal.self) { try CompactToken(Array(text.utf8)) }
        #expect(refusal?.kind == kind)
        if !text.hasPrefix(".") { #expect(refusal?.description == words) }
    }

    @Test(arguments: [
        (#"{"alg":"HS256","crit":["exp"],"exp":1}"#, "its header asks for extensions (crit); none is known"),
        (#"{"alg":"HS256","crit":[]}"#, "its header asks for extensions (crit); none is known"),
        (#"{"alg":"HS256","b64":false}"#, "its header has \"b64\", which is not known"),
        (#"{"alg":"HS256","alg":"none"}"#, "its header: line 1: duplicate object key near '\"alg\"'"),
        (#"{"alg":"HS256","kid":7}"#, "its \"kid\" is no text"),
        (#"{"alg":"HS256","typ":"dpop+jwt"}"#, "its type is dpop+jwt, and neither JWT nor at+jwt"),
        (#"{"alg":"HS256","typ":7}"#, "its type is no text, and neither JWT nor at+jwt"),
        (#"{"alg":"HS256","cty":"JWT"}"#, "another token is wrapped in it (cty)"),
        (#"{"alg":256}"#, "its header has no \"alg\""),
        (#"{"alg":"hs256"}"#, "its algorithm hs256 is not known"),
        (#"{"alg":"RSA-OAEP"}"#, "its algorithm RSA-OAEP is not known"),
        (#"{"alg":"\u001b[2J\n"}"#, "its algorithm ?[2J? is not known"),
    ]) func `a header that asks for what is not known is refused`(header: String, words: String) {
        let refusal = #expect(throws: TokenRefusal.self) {
            try CompactToken(Array("\(Base64URL.encode(Array(header.utf8))).e30.AAAA".utf8))
        }
        #expect(refusal?.description == words)
    }

    @Test(arguments: ["JWT", "jwt", "application/jwt", "at+jwt", "application/at+jwt", "JOSE"])
    func `the usual types are taken`(type: String) throws {
        let header = Base64URL.encode(Array(#"{"alg":"HS256","typ":"\#(type)"}"#.utf8))
        #expect(try CompactToken(Array("\(header).e30.AAAA".utf8)).algorithm == .hs256)
    }

    @Test func `a token that is too long is refused before it is looked at, and deep JSON is`() {
        let long = [UInt8](repeating: UInt8(ascii: "a"), count: 16 * 1024 + 1)
        let refusal = #expect(throws: TokenRefusal.self) { try CompactToken(long) }
        #expect(refusal?.description == "it has 16385 bytes; more than 16384 are not read")
        #expect(throws: TokenRefusal.self) { try CompactToken(Array("e30.e30.AA".utf8), bytesMax: 9) }
        let deep = String(repeating: "[", count: 40) + String(repeating: "]", count: 40)
        let header = Base64URL.encode(Array(#"{"alg":"HS256","x":\#(deep)}"#.utf8))
        #expect(throws: TokenRefusal.self) { try CompactToken(Array("\(header).e30.AAAA".utf8)) }
    }

    // MARK: Times

    @Test(arguments: [
        (#"{"sub":"a","exp":1800000000}"#, nil),
        (#"{"sub":"a","exp":1799999971}"#, nil),
        (#"{"sub":"a","exp":1799999970}"#, "it expired 30 s ago"),
        (#"{"sub":"a","exp":1799992700}"#, "it expired 2 h ago"),
        (#"{"sub":"a","exp":1800000000.5}"#, nil),
        (#"{"sub":"a","exp":"1900000000"}"#, "its \"exp\" is no time: seconds since 1970, as a number"),
        (#"{"sub":"a","exp":1e300}"#, "its \"exp\" is no time: seconds since 1970, as a number"),
        (#"{"sub":"a","exp":-1}"#, "its \"exp\" is no time: seconds since 1970, as a number"),
        (#"{"sub":"a","exp":9223372036854775807}"#, "its \"exp\" is no time: seconds since 1970, as a number"),
        (#"{"sub":"a","exp":null}"#, "its \"exp\" is no time: seconds since 1970, as a number"),
        (#"{"sub":"a","exp":true}"#, "its \"exp\" is no time: seconds since 1970, as a number"),
        (#"{"sub":"a"}"#, "it has no \"exp\""),
        (#"{"sub":"a","exp":1900000000,"nbf":1800000030}"#, nil),
        (#"{"sub":"a","exp":1900000000,"nbf":1800000031}"#, "it is valid only in 31 s (nbf)"),
        (#"{"sub":"a","exp":1900000000,"iat":1800000031}"#, "it was made 31 s from now (iat): a clock is wrong"),
        (#"{"sub":"a","exp":1900000000,"iat":1800000030,"nbf":0}"#, nil),
    ]) func `a token holds from nbf to exp, with leeway`(claims: String, words: String?) throws {
        #expect(try refusal(claims) == words)
    }

    @Test func `a token need not expire where that is not required`() throws {
        var rules = TokenRules()
        rules.required = []
        #expect(try login(#"{"sub":"a"}"#, rules).expiresAt == nil)
    }

    // MARK: Parties

    @Test(arguments: [
        (#""iss":"https://a.example","aud":"mqtt""#, nil),
        (#""iss":"https://b.example","aud":["x","mqtt"]"#, nil),
        (#""aud":"mqtt""#, "it does not say who has issued it (iss)"),
        (#""iss":"https://a.example/","aud":"mqtt""#, "it was issued by \"https://a.example/\""),
        (#""iss":["https://a.example"],"aud":"mqtt""#, "its \"iss\" is no text"),
        (#""iss":"https://a.example""#, "it does not say for whom it is (aud)"),
        (#""iss":"https://a.example","aud":"MQTT""#, "it is for \"MQTT\" (aud)"),
        (#""iss":"https://a.example","aud":["x","y"]"#, "it is for \"x\", \"y\" (aud)"),
        (#""iss":"https://a.example","aud":[]"#, "it is for nobody (aud)"),
        (#""iss":"https://a.example","aud":{}"#, "its \"aud\" is neither a text nor an array of texts"),
        (#""iss":"https://a.example","aud":["mqtt",1]"#, "its \"aud\" holds something else than texts"),
    ]) func `issuer and audience are one of those that are named`(claims: String, words: String?) throws {
        var rules = TokenRules()
        rules.issuers = ["https://a.example", "https://b.example"]
        rules.audiences = ["mqtt"]
        #expect(try refusal(#"{"sub":"a","exp":1900000000,\#(claims)}"#, rules) == words)
    }

    @Test func `a token for somebody is refused where no audience is named`() throws {
        #expect(try refusal(#"{"sub":"a","exp":1900000000,"aud":"account"}"#) == "it is for \"account\" (aud)")
    }

    // MARK: Required

    @Test(arguments: [
        ("tenant=blue", nil), ("tenant=red", "its \"tenant\" is not \"red\""), ("tenant", nil), ("other", "it has no \"other\""),
        ("user=%u", nil), ("device=%c", nil), ("device=%u", "its \"device\" is not \"anna\""), ("path=/%u/%c", nil),
        ("groups=b", nil), ("groups=c", "its \"groups\" is not \"c\""), ("level=7", nil), ("admin=true", nil),
        ("nothing", "it has no \"nothing\""), ("realm.roles=publisher", nil), ("https://a.example/x=1.5", nil),
        ("percent=100%", nil), ("object=x", "its \"object\" is not \"x\""),
    ]) func `a required claim is there, equals, or holds`(required: String, words: String?) throws {
        var rules = TokenRules()
        rules.userNameClaim = nil
        rules.required = [try #require(RequiredClaim(required))]
        let claims = #"""
            {"tenant":"blue","user":"anna","device":"dev-1","path":"/anna/dev-1","groups":["a","b"],"level":7,"admin":true,"nothing":null,
             "realm":{"roles":["publisher"]},"https://a.example/x":"1.5","percent":"100%","object":{"x":"x"}}
            """#
        #expect(try refusal(claims, rules) == words)
    }

    @Test func `a name that the client does not give is no reason to let it in`() throws {
        var rules = TokenRules()
        (rules.userNameClaim, rules.required) = (nil, [RequiredClaim(name: "user", value: "%u")])
        let verifier = TokenVerifier(rules)
        let claims = try #require(try JSONValue(reading: Array(#"{"user":""}"#.utf8)).object)
        #expect(throws: TokenRefusal(.claims, "its \"user\" is to be %u, and the client gives none")) {
            try verifier.login(by: claims, bearer: TokenBearer(userName: nil, clientIdentifier: ""), now: 0)
        }
    }

    // MARK: What is taken

    @Test func `names, roles, attributes and superuser are taken from their claims`() throws {
        var rules = TokenRules()
        (rules.userNameClaim, rules.clientIdentifierClaim, rules.rolesClaim) = (
            "preferred_username", "device", "realm_access.roles"
        )
        let login = try login(
            #"""
            {"exp":1900000000,"sub":"f:1","preferred_username":"anna","device":"dev-1","realm_access":{"roles":["a","b c"]},
             "is_superuser":true,"client_attrs":{"site":"north"},"jti":"7"}
            """#, rules)
        #expect(login.userName == "anna")
        #expect(login.roles == ["a", "b c"])
        #expect(login.isSuperuser)
        #expect(login.attributes == [TokenAttribute(name: "site", value: "north")])
        #expect(login.identifier == "7")
        rules.rolesClaim = "scope"
        #expect(
            try self.login(#"{"exp":1900000000,"preferred_username":"a","device":"dev-1","scope":"x  y"}"#, rules).roles == [
                "x", "y",
            ])
    }

    @Test(arguments: [
        (#"{"exp":1900000000}"#, "it has no \"sub\" that names the user"),
        (#"{"exp":1900000000,"sub":""}"#, "it has no \"sub\" that names the user"),
        (#"{"exp":1900000000,"sub":7}"#, "its \"sub\" is no text"),
        (#"{"exp":1900000000,"sub":"a","is_superuser":"yes"}"#, "its \"is_superuser\" is neither true nor false"),
        (#"{"exp":1900000000,"sub":"a","client_attrs":[]}"#, "its \"client_attrs\" is no object"),
        (#"{"exp":1900000000,"sub":"a","client_attrs":{"a":1}}"#, "its \"client_attrs\" holds something else than texts"),
        (#"{"exp":1900000000,"sub":"a","acl":"all"}"#, "its \"acl\" is neither an object nor an array"),
        (#"{"exp":1900000000,"sub":"a","acl":{"publish":[]}}"#, "its \"acl\" has a \"publish\"; pub, sub and all are known"),
        (
            #"{"exp":1900000000,"sub":"a","acl":[{"permission":"maybe"}]}"#,
            "its \"acl\" has a rule 1 whose \"permission\" is neither allow nor deny"
        ),
        (
            #"{"exp":1900000000,"sub":"a","acl":[{"permission":"allow","action":"publish","topic":"a","qos":3}]}"#,
            "its \"acl\" has a rule 1 whose \"qos\" is none of 0, 1 and 2, and no list of them"
        ),
        (
            #"{"exp":1900000000,"sub":"a","acl":[{"permission":"allow","action":"publish","topic":"a","qos":[]}]}"#,
            "its \"acl\" has a rule 1 whose \"qos\" is an empty list, so that it is about nothing"
        ),
        (
            #"{"exp":1900000000,"sub":"a","acl":[{"permission":"allow","action":"publish","topic":"a","retain":"no"}]}"#,
            "its \"acl\" has a rule 1 whose \"retain\" is neither true nor false nor \"all\""
        ),
        (
            #"{"exp":1900000000,"sub":"a","acl":[{"permission":"allow","action":"publish","topic":"a","ipaddr":[7]}]}"#,
            "its \"acl\" has a \"ipaddr\" in rule 1 that holds something else than addresses"
        ),
        (
            #"{"exp":1900000000,"sub":"a","acl":[{"permission":"deny","action":"all","topic":"a","clientid_re":"^x"}]}"#,
            "its \"acl\" has a rule 1 that asks for \"clientid_re\", which is not known here; qos, retain and ipaddr are"
        ),
        (
            #"{"exp":1900000000,"sub":"a","acl":[{"permission":"deny","action":"all"}]}"#,
            "its \"acl\" has a \"topic\" in rule 1 that is no list of topics"
        ),
    ]) func `claims of another kind are refused`(claims: String, words: String) throws {
        #expect(try refusal(claims) == words)
    }

    @Test func `the Client Identifier is the claim's where one is named`() throws {
        var rules = TokenRules()
        rules.clientIdentifierClaim = "device"
        #expect(try refusal(#"{"exp":1900000000,"sub":"a"}"#, rules) == "it has no \"device\" that names the client")
        #expect(
            try refusal(#"{"exp":1900000000,"sub":"a","device":"dev-2"}"#, rules) == "it is for the Client Identifier \"dev-2\"")
    }

    // MARK: Access rules

    @Test func `both forms of access rules are read`() throws {
        let first = try access(#"{"pub":["a/%c","eq b/#"],"sub":"c/#","all":[]}"#)
        #expect(first.decidesAll)
        #expect(
            first.rules == [
                .init(allows: true, action: .publish, topic: "a/%c"),
                .init(allows: true, action: .publish, topic: "b/#", isLiteral: true),
                .init(allows: true, action: .subscribe, topic: "c/#"),
            ])
        let second = try access(
            #"""
            [{"permission":"deny","action":"sub","topic":"a"},
             {"permission":"allow","action":"all","topics":["b","eq c/+"],"qos":[0,1,2],"retain":"all","ipaddr":"10.0.0.0/8"},
             {"permission":"allow","action":"publish","topic":"d","qos":"0,1,2","note":"whatever"},
             {"permission":"allow","action":"publish","topic":"e","qos":["1",2],"retain":false}]
            """#)
        #expect(!second.decidesAll)
        var (near, certain) = (TokenAccess.Conditions(), TokenAccess.Conditions())
        near.addresses = ["10.0.0.0/8"]
        (certain.qos, certain.retain) = ([1, 2], false)
        #expect(
            second.rules == [
                .init(allows: false, action: .subscribe, topic: "a"),
                .init(allows: true, action: .all, topic: "b", conditions: near),
                .init(allows: true, action: .all, topic: "c/+", isLiteral: true, conditions: near),
                .init(allows: true, action: .publish, topic: "d"),
                .init(allows: true, action: .publish, topic: "e", conditions: certain),
            ])
    }

    @Test func `access rules are bounded`() throws {
        let topics = Array(repeating: "\"a\"", count: 1025).joined(separator: ",")
        #expect(throws: TokenRefusal(.claims, "its \"acl\" has more than 1024 rules")) { try access("{\"pub\":[\(topics)]}") }
    }

    // MARK: Helpers

    private func access(_ text: String) throws -> TokenAccess {
        try TokenAccess(try JSONValue(reading: Array(text.utf8)), claim: "acl")
    }

    private func login(_ text: String, _ rules: TokenRules = TokenRules()) throws -> TokenLogin {
        let claims = try #require(try JSONValue(reading: Array(text.utf8)).object)
        let bearer = TokenBearer(userName: "anna", clientIdentifier: "dev-1")
        return try TokenVerifier(rules).login(by: claims, bearer: bearer, now: MadeTokens.now)
    }

    private func refusal(_ text: String, _ rules: TokenRules = TokenRules()) throws -> String? {
        do {
            _ = try login(text, rules)
            return nil
        } catch let error as TokenRefusal {
            return error.description
        }
    }
}
