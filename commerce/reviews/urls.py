"""Routes of reviews and questions, under /api."""

from commerce.reviews.views import QuestionViewSet, ReviewViewSet
from shared.api.viewsets import ApiRouter

router = ApiRouter()
router.register("reviews", ReviewViewSet)
router.register("questions", QuestionViewSet)

urlpatterns = router.urls
