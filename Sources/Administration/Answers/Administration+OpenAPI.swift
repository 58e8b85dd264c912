internal import COpenAPI
internal import HTTP

/// The description of all this.
extension Administration {
    func getOpenAPI(_ call: Call) throws(APIError) {
        let bytes = UnsafeRawBufferPointer(start: martlet_openapi, count: martlet_openapi_byte_count)
        call.answer(.json(bytes))
    }
}
