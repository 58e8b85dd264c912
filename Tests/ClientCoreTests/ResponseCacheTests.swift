import ClientCore
import MQTTCodec
import Testing

@Suite struct ResponseCacheTests {
    private func key(_ number: UInt8) -> ResponseCache.Key {
        ResponseCache.Key(responseTopic: "r", correlationData: [number])
    }

    private func answer(_ text: String) -> Publication { Publication("r", Payload(text)) }

    @Test func `a request runs once; what comes again gets the answer`() {
        var cache = ResponseCache()
        #expect(cache.admit(key(1)) == .run)
        #expect(cache.admit(key(1)) == .isRunning)
        #expect(cache.admit(key(2)) == .run)
        cache.finish(key(1), answer("one"))
        #expect(cache.admit(key(1)) == .answered(answer("one")))
        #expect(cache.admit(key(2)) == .isRunning)
    }

    @Test func `the same Correlation Data of another client is another request`() {
        var cache = ResponseCache()
        #expect(cache.admit(key(1)) == .run)
        #expect(cache.admit(ResponseCache.Key(responseTopic: "other", correlationData: [1])) == .run)
    }

    @Test func `the oldest answers go when there are too many, running requests stay`() {
        var cache = ResponseCache(countMax: 2, bytesMax: 1000)
        for number in UInt8(1)...5 { _ = cache.admit(key(number)) }
        for number in UInt8(2)...5 { cache.finish(key(number), answer("x")) }
        #expect(cache.count == 2)
        #expect(cache.admit(key(1)) == .isRunning)
        #expect(cache.admit(key(2)) == .run)
        #expect(cache.admit(key(3)) == .run)
        #expect(cache.admit(key(4)) == .answered(answer("x")))
        #expect(cache.admit(key(5)) == .answered(answer("x")))
    }

    @Test func `the oldest answers go when they are too large together`() {
        var cache = ResponseCache(countMax: 100, bytesMax: 24)
        for number in UInt8(1)...3 {
            _ = cache.admit(key(number))
            cache.finish(key(number), answer("0123456789"))
        }
        #expect(cache.count == 2)
        #expect(cache.bytes == 24)
        _ = cache.admit(key(4))
        cache.finish(key(4), answer(String(repeating: "x", count: 100)))
        #expect(cache.count == 0)
        #expect(cache.bytes == 0)
        #expect(cache.admit(key(4)) == .run)
    }

    @Test func `a thousand answers leave what they should`() {
        var cache = ResponseCache(countMax: 10, bytesMax: 1000)
        for number in 0..<1000 {
            let key = ResponseCache.Key(responseTopic: "r", correlationData: [UInt8(number & 255), UInt8(number >> 8)])
            #expect(cache.admit(key) == .run)
            cache.finish(key, answer("\(number)"))
            #expect(cache.admit(key) == .answered(answer("\(number)")))
            #expect(cache.count == min(10, number + 1))
        }
    }
}
